"""What is the OpenAI Agents SDK's own."""

from __future__ import annotations

import asyncio

import pytest

from picohook import Deny, FunctionHook, Host, Modify, PicohookError, Retry

from .drivers import Agent, run_openai_agents, scripted_model

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

ONE = [[("1", "read", {"path": "a"})], "done"]


@pytest.fixture
def sdk():
    import agents

    agents.set_tracing_disabled(True)
    return agents


@pytest.fixture
def runner_of():
    from picohook.integrations.openai_agents import PicohookRunner

    return PicohookRunner


def read(path: str) -> str:
    return f"text of {path}"


def no(call):
    return Deny("no") if call.tool == "read" else None


@pytest.mark.parametrize("wrapped", [False, True])
async def test_agents_that_are_handed_off_to_ask_hooks_too(sdk, runner_of, wrapped):
    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        script = Agent(host, [[("0", "transfer_to_reader", {})], *ONE], [])
        model = scripted_model(script)
        reader = sdk.Agent(name="reader", model=model, tools=[sdk.function_tool(read)])
        first = sdk.Agent(name="first", model=model, handoffs=[sdk.handoff(reader) if wrapped else reader])
        reader.handoffs.append(first)
        result = await runner_of(host).run(first, "hello")
    assert result.final_output == "done"
    assert result.last_agent.name == "reader"
    assert script.told["1"] == "Tool execution denied by hook: no"


async def test_an_agent_that_is_a_tool_asks_hooks_when_it_is_guarded(sdk, runner_of):
    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        inner = Agent(host, ONE, [])
        runner = runner_of(host)
        reader = sdk.Agent(name="reader", model=scripted_model(inner), tools=[sdk.function_tool(read)])
        outer = Agent(host, [[("7", "ask", {"input": "hello"})], "fine"], [])
        tool = runner.guard(reader).as_tool("ask", "Asks.")
        result = await runner.run(sdk.Agent(name="outer", model=scripted_model(outer), tools=[tool]), "hello")
    assert result.final_output == "fine"
    assert inner.told == {"1": "Tool execution denied by hook: no"}
    assert outer.told == {"7": "done"}


async def test_a_call_that_needs_the_sdks_own_approval_asks_hooks_after_it(sdk, runner_of):
    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool_call_id)})]) as host:
        script = Agent(host, ONE, [])
        runner = runner_of(host)
        tool = sdk.function_tool(read, needs_approval=True)
        agent = sdk.Agent(name="a", model=scripted_model(script), tools=[tool])
        waiting = await runner.run(agent, "hello")
        assert asked == []
        kept = waiting.to_state().to_json()

        with pytest.raises(PicohookError, match=r"runner\.guard\(agent\)"):
            await runner.run(agent, await sdk.RunState.from_json(agent, kept))

        state = await sdk.RunState.from_json(runner.guard(agent), kept)
        (interruption,) = state.get_interruptions()
        state.approve(interruption)
        result = await runner.run(agent, state)
    assert result.final_output == "done"
    assert asked == ["1"]
    assert script.told == {"1": "text of a"}


async def test_A17_what_hooks_cannot_be_asked_about_is_refused_by_name(sdk, runner_of):
    async with Host() as host:
        for more, name in (
            ({"tools": [sdk.LocalShellTool(executor=lambda request: "")]}, "LocalShellTool"),
            ({"tools": [sdk.WebSearchTool()]}, "WebSearchTool"),
            ({"prompt": {"id": "stored"}}, "prompt"),
            ({"model_settings": sdk.ModelSettings(extra_body={"tools": [{"type": "web_search"}]})}, "extra_body"),
        ):
            agent = sdk.Agent(name="a", model=scripted_model(Agent(host, ["done"], [])), **more)
            with pytest.raises(PicohookError, match=rf"{name}: .*: leave it out, or .*unguarded=\['{name}'\]"):
                await runner_of(host).run(agent, "hello")
            assert (await runner_of(host, unguarded=[name]).run(agent, "hello")).final_output == "done"


async def test_A17_a_session_that_asks_a_model_by_itself_is_refused(sdk, runner_of):
    kept = sdk.OpenAIResponsesCompactionSession("s", sdk.SQLiteSession("s"), client=object())
    async with Host() as host:
        agent = sdk.Agent(name="a", model=scripted_model(Agent(host, ["done"], [])))
        with pytest.raises(PicohookError, match="OpenAIResponsesCompactionSession: this session asks a model"):
            await runner_of(host).run(agent, "hello", session=kept)


async def test_a_tool_that_runs_without_hooks_is_shown_to_them(sdk, runner_of):
    seen = []
    async with Host([FunctionHook("h", {"before_llm": lambda request: seen.extend(request.tools)})]) as host:
        agent = sdk.Agent(name="a", model=scripted_model(Agent(host, ["done"], [])), tools=[sdk.WebSearchTool()])
        await runner_of(host, unguarded=["WebSearchTool"]).run(agent, "hello")
    assert seen == [{"type": "WebSearchTool", "name": "web_search"}]


async def test_A17_hooks_are_asked_about_the_tools_of_a_sandbox(sdk, runner_of, tmp_path):
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    asked, ran = [], tmp_path / "ran"
    calls = [
        ("1", "exec_command", {"cmd": f"touch {ran}"}),
        ("2", "write_stdin", {"session_id": 1, "chars": "x"}),
        ("3", "view_image", {"path": "a.png"}),
    ]
    judge = FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool) or Deny("no")})
    async with Host([judge]) as host:
        script = Agent(host, [calls, "done"], [])
        agent = SandboxAgent(name="a", model=scripted_model(script))
        config = sdk.RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))
        await runner_of(host).run(agent, "hello", run_config=config)
    assert sorted(asked) == ["exec_command", "view_image", "write_stdin"]
    assert {*script.told.values()} == {"Tool execution denied by hook: no"}
    assert not ran.exists()


@pytest.mark.parametrize("how", ["clone", "copy", "replace"])
async def test_A17_a_copy_of_a_guarded_agent_asks_hooks_about_the_tools_that_it_gets(sdk, runner_of, how):
    import copy
    import dataclasses

    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        script = Agent(host, ONE, [])
        runner = runner_of(host)
        agent = runner.guard(sdk.Agent(name="a", model=scripted_model(script)))
        copied = {"clone": agent.clone, "copy": lambda: copy.copy(agent), "replace": lambda: dataclasses.replace(agent)}
        other = copied[how]()
        other.tools = [sdk.function_tool(read)]
        await runner.run(other, "hello")
    assert script.told["1"] == "Tool execution denied by hook: no"


async def test_A17_a_copy_of_a_guarded_agent_asks_hooks_about_its_model_and_its_handoffs(sdk, runner_of):
    models = []
    stages = {"before_tool": no, "before_llm": lambda request: models.append(request.meta.agent_id)}
    async with Host([FunctionHook("h", stages)]) as host:
        script = Agent(host, [[("0", "transfer_to_reader", {})], *ONE], [])
        model, runner = scripted_model(script), runner_of(host)
        reader = sdk.Agent(name="reader", model=model, tools=[sdk.function_tool(read)])
        await runner.run(runner.guard(sdk.Agent(name="a")).clone(model=model, handoffs=[reader]), "hello")
    assert script.told["1"] == "Tool execution denied by hook: no"
    assert models == ["a", "reader", "reader"]


@pytest.mark.parametrize("where", ["guardrail", "instructions", "stream"])
async def test_A17_an_agent_that_the_runs_own_code_runs_asks_hooks(sdk, runner_of, where):
    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        inner = Agent(host, ONE, [])
        judge = sdk.Agent(name="judge", model=scripted_model(inner), tools=[sdk.function_tool(read)])

        @sdk.input_guardrail
        async def check(context, agent, given):
            if where == "stream":
                async for _ in sdk.Runner.run_streamed(judge, given).stream_events():
                    pass
            else:
                await sdk.Runner.run(judge, given)
            return sdk.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

        async def instruct(context, agent):
            await sdk.Runner.run(judge, "hello")
            return "Be brief."

        own = {"instructions": instruct} if where == "instructions" else {"input_guardrails": [check]}
        await runner_of(host).run(sdk.Agent(name="a", model=scripted_model(Agent(host, ["done"], [])), **own), "hello")
    assert inner.told["1"] == "Tool execution denied by hook: no"


async def test_an_error_that_the_sdk_turns_into_text_is_an_error_for_hooks(sdk, runner_of):
    results = []

    def read(path: str) -> str:
        raise LookupError(f"no {path}")

    async with Host([FunctionHook("h", {"after_tool": lambda returned: results.append(returned.result)})]) as host:
        script = Agent(host, ONE, [])
        agent = sdk.Agent(name="a", model=scripted_model(script), tools=[sdk.function_tool(read)])
        assert (await runner_of(host).run(agent, "hello")).final_output == "done"
    assert "error" in script.told["1"]
    assert [(result.for_llm, result.is_error) for result in results] == [(script.told["1"], True)]


async def test_the_timeout_of_a_tool_does_not_include_hooks(sdk, runner_of):
    results = []

    async def read(path: str) -> str:
        await asyncio.Event().wait()
        return path

    async with Host(
        [FunctionHook("h", {"after_tool": lambda returned: results.append(returned.result.for_llm)})]
    ) as host:
        script = Agent(host, ONE, [])
        runner = runner_of(host)
        tool = sdk.function_tool(read, timeout=0.05)
        guarded = runner.guard(sdk.Agent(name="a", model=scripted_model(script), tools=[tool]))
        assert [one.timeout_seconds for one in guarded.tools] == [None]
        await runner.run(guarded, "hello")
    assert "timed out" in script.told["1"]
    assert results == [script.told["1"]]


async def test_the_usage_of_every_round_counts(sdk, runner_of):
    from agents.testing import ModelStep, ScriptedModel, assistant_message

    def judge(answer):
        return Retry("say please") if answer.response["content"] == "no" else None

    async with Host([FunctionHook("h", {"after_llm": judge})]) as host:
        usage = sdk.Usage(requests=1, output_tokens=7)
        model = ScriptedModel([ModelStep([assistant_message(text)], usage=usage) for text in ("no", "please")])
        result = await runner_of(host).run(sdk.Agent(name="a", model=model), "hello")
    assert result.final_output == "please"
    assert result.context_wrapper.usage.output_tokens == 14


async def test_models_by_name_are_guarded_too(sdk, runner_of):
    class Provider(sdk.ModelProvider):
        def get_model(self, model_name):
            assert model_name == "m1"
            return scripted_model(script)

    seen = []
    async with Host([FunctionHook("h", {"before_llm": seen.append})]) as host:
        script = Agent(host, ["done"], [])
        config = sdk.RunConfig(model_provider=Provider())
        result = await runner_of(host).run(sdk.Agent(name="a", model="m1"), "hello", run_config=config)
    assert result.final_output == "done"
    assert [request.messages for request in seen] == [[{"role": "user", "content": "hello"}]]


async def test_arguments_that_are_not_json_are_shown_as_text_and_reach_the_sdk_unchanged(sdk, runner_of):
    from agents.testing import ScriptedModel, assistant_message, function_call

    seen = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: seen.append(call.arguments)})]) as host:
        model = ScriptedModel([[function_call("read", "{oops", call_id="1")], [assistant_message("done")]])
        agent = sdk.Agent(name="a", model=model, tools=[sdk.function_tool(read)])
        assert (await runner_of(host).run(agent, "hello")).final_output == "done"
    assert seen == [{"picohook.unreadable_arguments": "{oops"}]


async def test_the_session_is_that_of_the_sdk(sdk, runner_of):
    seen = []
    async with Host([FunctionHook("h", {"before_llm": lambda request: seen.append(request.meta.session_key)})]) as host:
        agent = sdk.Agent(name="a", model=scripted_model(Agent(host, ["done"], [])))
        await runner_of(host).run(agent, "hello", session=sdk.SQLiteSession("talk"))
        assert await run_openai_agents(Agent(host, ["done"], [], session="given")) == "done"
    assert seen == ["talk", "given"]


async def test_tools_of_mcp_servers_ask_hooks(sdk, runner_of):
    from agents.mcp import MCPServer
    from mcp.types import CallToolResult, TextContent, Tool

    called = []

    class Server(MCPServer):
        name = "files"

        async def connect(self):
            pass

        async def cleanup(self):
            pass

        async def list_tools(self, run_context=None, agent=None):
            schema = {"type": "object", "properties": {"path": {"type": "string"}}}
            return [Tool(name=name, inputSchema=schema) for name in ("read", "show")]

        async def call_tool(self, tool_name, arguments, meta=None):
            called.append(tool_name)
            return CallToolResult(content=[TextContent(type="text", text=f"text of {arguments['path']}")])

        async def list_prompts(self):
            raise NotImplementedError

        async def get_prompt(self, name, arguments=None):
            raise NotImplementedError

    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        script = Agent(host, [[("1", "read", {"path": "a"}), ("2", "show", {"path": "b"})], "done"], [])
        agent = sdk.Agent(name="a", model=scripted_model(script), mcp_servers=[Server()])
        await runner_of(host).run(agent, "hello")
    assert called == ["show"]
    assert script.told["1"] == "Tool execution denied by hook: no"
    assert "text of b" in str(script.told["2"])


async def test_custom_tools_ask_hooks(sdk, runner_of):
    from agents.testing import ScriptedModel, assistant_message
    from openai.types.responses import ResponseCustomToolCall

    given = []

    async def run_code(context, code):
        del context
        given.append(code)
        return "42"

    def judge(call):
        return Modify({"arguments": {"input": call.arguments["input"].upper()}})

    async with Host([FunctionHook("h", {"before_tool": judge})]) as host:
        call = ResponseCustomToolCall(type="custom_tool_call", name="code", input="print", call_id="1")
        model = ScriptedModel([[call], [assistant_message("done")]])
        tool = sdk.CustomTool(name="code", description="Runs code.", on_invoke_tool=run_code)
        await runner_of(host).run(sdk.Agent(name="a", model=model, tools=[tool]), "hello")
    assert given == ["PRINT"]
