"""What is Pydantic AI's own."""

from __future__ import annotations

from datetime import date

import pytest

from picohook import Deny, FunctionHook, Host, Modify, PicohookError, Retry

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]


@pytest.fixture
def agent_of():
    """An agent with Pydantic AI's own TestModel, which calls every tool once."""
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    def make(host, *tools, **settings):
        return Agent(TestModel(seed=1), tools=tools, capabilities=[Picohook(host, agent_id="main")], **settings)

    return make


def returns_of(result):
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part for part in parts if part.part_kind == "tool-return"]


async def test_the_turn_is_the_run_in_its_conversation(agent_of):
    metas = []
    async with Host([FunctionHook("h", {"before_llm": lambda request: metas.append(request.meta)})]) as host:
        result = await agent_of(host).run("hello")
    (meta,) = metas
    assert (meta.turn_id, meta.session_key, meta.agent_id) == (result.run_id, result.conversation_id, "main")


async def test_a_tool_can_ask_the_model_to_try_again(agent_of):
    from pydantic_ai import ModelRetry

    results = []
    tries = []

    def guess(number: int) -> str:
        tries.append(number)
        if len(tries) == 1:
            raise ModelRetry("higher")
        return "right"

    async with Host([FunctionHook("h", {"after_tool": lambda returned: results.append(returned.result)})]) as host:
        result = await agent_of(host, guess).run("hello")
    assert [part.outcome for part in returns_of(result)] == ["retried", "success"]
    assert [(one.is_error, one.for_llm) for one in results] == [(True, "ModelRetry: higher"), (False, "right")]


async def test_a_retry_request_with_the_changes_of_hooks_is_still_one(agent_of):
    from pydantic_ai import ModelRetry

    tries = []

    def guess(number: int) -> str:
        tries.append(number)
        if len(tries) == 1:
            raise ModelRetry("it is 42")
        return "right"

    def hide(returned):
        return Modify({"for_llm": "try again"}) if returned.result.is_error else None

    async with Host([FunctionHook("h", {"after_tool": hide})]) as host:
        result = await agent_of(host, guess).run("hello")
    assert [(part.outcome, part.content) for part in returns_of(result)] == [
        ("retried", "try again"),
        ("success", "right"),
    ]


async def test_a_call_that_needs_the_frameworks_own_approval_is_deferred_and_resumed(agent_of):
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, Tool

    seen = {"before_tool": [], "after_tool": []}
    kinds = []

    def remove(path: str) -> str:
        return f"{path} is gone"

    stages = {stage: lambda payload, stage=stage: seen[stage].append(payload.tool_call_id) for stage in seen}
    async with Host([FunctionHook("h", stages, on_event=lambda event: kinds.append(event.kind))]) as host:
        agent = agent_of(host, Tool(remove, requires_approval=True), output_type=[str, DeferredToolRequests])
        waiting = await agent.run("hello")
        (call,) = waiting.output.approvals
        assert seen["after_tool"] == []
        approved = DeferredToolResults(approvals={call.tool_call_id: True})
        result = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=approved)
    assert [part.content for part in returns_of(result)] == [f"{call.args_as_dict()['path']} is gone"]
    assert seen["after_tool"] == [call.tool_call_id]
    assert "tool_exec_end" in kinds


async def test_a_tool_that_defers_its_call_has_no_result_yet(agent_of):
    from pydantic_ai import ApprovalRequired, DeferredToolRequests

    seen = []
    skipped = []

    def remove(path: str) -> str:
        raise ApprovalRequired({"path": path})

    def told(event):
        if event.kind == "tool_exec_skipped":
            skipped.append(event.payload["Reason"])

    async with Host([FunctionHook("h", {"after_tool": seen.append}, on_event=told)]) as host:
        result = await agent_of(host, remove, output_type=[str, DeferredToolRequests]).run("hello")
    assert [call.tool_name for call in result.output.approvals] == ["remove"]
    assert seen == []
    assert skipped == ["ApprovalRequired"]


async def test_arguments_are_validated_also_after_a_hook_changed_them(agent_of):
    given = []

    def book(day: date) -> str:
        given.append(day)
        return day.isoformat()

    def tomorrow(call):
        assert isinstance(call.arguments["day"], str)
        return Modify({"arguments": {"day": "2031-02-03"}}) if len(given) else None

    async with Host([FunctionHook("h", {"before_tool": tomorrow})]) as host:
        for _ in range(2):
            await agent_of(host, book).run("hello")
    assert all(isinstance(day, date) for day in given)
    assert given[1] == date(2031, 2, 3)


async def test_a_result_that_hooks_do_not_change_stays_the_same_object(agent_of):
    from pydantic_ai import ToolReturn

    def look(path: str):
        return ToolReturn({"size": len(path)}, metadata={"took": 3})

    seen = []
    async with Host([FunctionHook("h", {"after_tool": lambda returned: seen.append(returned.result.for_llm)})]) as host:
        result = await agent_of(host, look).run("hello")
    (part,) = returns_of(result)
    assert (part.content, part.metadata) == ({"size": 1}, {"took": 3})
    assert seen == ['{"size":1}']


async def test_a_denial_is_a_failed_tool(agent_of):
    def remove(path: str) -> str:
        pytest.fail(f"{path} was removed")

    async with Host([FunctionHook("h", {"before_tool": lambda _: Deny("no")})]) as host:
        result = await agent_of(host, remove).run("hello")
    assert [part.outcome for part in returns_of(result)] == ["failed"]


async def test_the_settings_of_a_request_have_the_changes_of_hooks(agent_of):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    settings = []

    def answer(messages, info):
        del messages
        settings.append(dict(info.model_settings))
        return ModelResponse([TextPart("done")])

    async with Host([FunctionHook("h", {"before_llm": lambda _: Modify({"options": {"temperature": 0.5}})})]) as host:
        agent = Agent(FunctionModel(answer), capabilities=[Picohook(host)])
        await agent.run("hello", model_settings={"temperature": 1, "max_tokens": 5})
    assert settings == [{"temperature": 0.5}]


async def test_the_usage_of_every_round_counts():
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    from picohook.integrations.pydantic_ai import Picohook

    def answer(messages, info):
        del info
        return ModelResponse([TextPart(f"{len(messages[0].parts)}")], usage=RequestUsage(output_tokens=7))

    def judge(answer):
        return Retry("say two") if answer.response["content"] == "1" else None

    async with Host([FunctionHook("h", {"after_llm": judge})]) as host:
        result = await Agent(FunctionModel(answer), capabilities=[Picohook(host)]).run("hello")
    assert result.output == "2"
    assert result.usage.output_tokens == 14


async def test_pictures_in_a_conversation_survive_an_edit(agent_of):
    from pydantic_ai import ImageUrl

    def edit(request):
        return Modify({"messages": [{"role": "system", "content": "Mind."}, *request.messages]})

    async with Host([FunctionHook("h", {"before_llm": edit})]) as host:
        agent = agent_of(host)
        picture = ImageUrl("https://example.com/a.png")
        result = await agent.run(["What is this?", picture])
    (prompt,) = [part for part in result.all_messages()[0].parts if part.part_kind == "user-prompt"]
    assert prompt.content[1] is picture


async def test_a_capability_outside_of_a_run_is_an_error_with_the_way_out():
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    with pytest.raises(PicohookError, match="used outside of a run"):
        Picohook(Host()).get_wrapper_model(TestModel())


async def test_hooks_are_next_to_the_tools_wherever_the_capability_is_listed():
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import WrapperToolset

    from picohook.integrations.pydantic_ai import Picohook

    class Loud(WrapperToolset):
        async def call_tool(self, name, tool_args, ctx, tool):
            return await super().call_tool(name, {"path": "loud"}, ctx, tool)

    class Loudly(AbstractCapability):
        def get_wrapper_toolset(self, toolset):
            return Loud(toolset)

    seen = []

    def read(path: str) -> str:
        return path

    async with Host([FunctionHook("h", {"before_tool": lambda call: seen.append(call.arguments)})]) as host:
        await Agent(TestModel(), tools=[read], capabilities=[Picohook(host), Loudly()]).run("hello")
    assert seen == [{"path": "loud"}]


async def test_hooks_see_the_settings_that_the_model_itself_was_made_with():
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.settings import ModelSettings

    from picohook.integrations.pydantic_ai import Picohook

    events, options = [], []
    hook = FunctionHook("h", {"before_llm": lambda request: options.append(request.options)}, on_event=events.append)
    async with Host([hook]) as host:
        model = FunctionModel(
            lambda messages, info: ModelResponse([TextPart("done")]), settings=ModelSettings(temperature=0.7)
        )
        await pydantic_ai.Agent(model, capabilities=[Picohook(host)]).run("hello")
        await host.emit_and_wait("turn_start")
    assert options == [{"temperature": 0.7}]
    assert [event.payload["Temperature"] for event in events if event.kind == "llm_request"] == [0.7]


async def test_a_call_that_is_changed_in_place_while_hooks_decide_runs_as_they_saw_it(agent_of):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import WrapperToolset

    held, ran = [], []

    class Holding(WrapperToolset):
        async def call_tool(self, name, tool_args, ctx, tool):
            held.append(tool_args)
            return await super().call_tool(name, tool_args, ctx, tool)

    class Holds(AbstractCapability):
        def get_wrapper_toolset(self, toolset):
            return Holding(toolset)

    def read(paths: list[str]) -> str:
        ran.append(paths)
        return "done"

    async def meddle(call):
        held[0]["paths"].append("evil")
        seen.append(call.arguments["paths"])

    seen = []
    async with Host([FunctionHook("h", {"before_tool": meddle})]) as host:
        agent = agent_of(host, read)
        await agent.run("hello", capabilities=[Holds()])
    assert ran == seen


# Output functions are asked about as tools are.


def finishing(run, **settings):
    """An agent whose model ends with the output function `finish`, again until it succeeds."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages, info):
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"path": "a"}, f"c{len(messages)}")])

    return Agent(FunctionModel(answer), output_type=run, **settings)


@pytest.mark.parametrize(
    ("decision", "output"), [(None, "ran a"), (Modify({"arguments": {"path": "b"}}), "ran b"), (Deny("no"), None)]
)
async def test_A17_hooks_are_asked_about_an_output_function(decision, output):
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    from picohook.integrations.pydantic_ai import Picohook

    ran = []

    def finish(path: str) -> str:
        ran.append(path)
        return f"ran {path}"

    calls, results = [], []
    stages = {
        "before_tool": lambda call: calls.append(call) or decision,
        "after_tool": lambda returned: results.append(returned.result.for_llm),
    }
    async with Host([FunctionHook("h", stages)]) as host:
        agent = finishing(finish, capabilities=[Picohook(host)])
        if output is None:
            with pytest.raises(UnexpectedModelBehavior):
                await agent.run("hello")
        else:
            assert (await agent.run("hello")).output == output
    assert (calls[0].tool, calls[0].arguments) == ("finish", {"path": "a"})
    assert ran == ([] if output is None else [output[-1]])
    assert results == ([] if output is None else [output])


async def test_A17_hooks_are_asked_about_an_output_function_that_runs_while_its_call_streams():
    from pydantic_ai import Agent
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    ran, asked = [], []

    def finish(path: str) -> str:
        ran.append(path)
        return path

    async def pieces(messages, info):
        yield {0: DeltaToolCall(info.output_tools[0].name, '{"path": "a', tool_call_id="c")}
        yield {0: DeltaToolCall(None, 'bc"}')}

    def judge(call):
        asked.append(call.arguments)
        return Deny("no") if call.arguments == {"path": "a"} else None

    async with Host([FunctionHook("h", {"before_tool": judge})]) as host:
        agent = Agent(FunctionModel(stream_function=pieces), output_type=finish, capabilities=[Picohook(host)])
        async with agent.run_stream("hello") as result:
            assert [output async for output in result.stream_output(debounce_by=None)][-1] == "abc"
    assert asked[0] == {"path": "a"}
    assert {*ran} == {"abc"}


async def test_A17_hooks_are_asked_about_a_function_of_the_models_text():
    from pydantic_ai import Agent, TextOutput
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    def loud(text: str) -> str:
        return text.upper()

    calls = []
    async with Host(
        [FunctionHook("h", {"before_tool": lambda call: calls.append((call.tool, call.arguments))})]
    ) as host:
        agent = Agent(TestModel(), output_type=TextOutput(loud), capabilities=[Picohook(host)])
        assert (await agent.run("hello")).output == "SUCCESS (NO TOOL CALLS)"
    assert calls == [("loud", {"output": "success (no tool calls)"})]


async def test_a_hook_cannot_change_the_call_of_an_output_function_to_one_that_it_cannot_take():
    from picohook.integrations.pydantic_ai import Picohook

    def finish(path: str) -> str:
        return path

    change = FunctionHook("h", {"before_tool": lambda _: Modify({"arguments": {"path": 7}})})
    async with Host([change]) as host:
        with pytest.raises(PicohookError, match="finish: a hook changed the call of this output function"):
            await finishing(finish, capabilities=[Picohook(host)]).run("hello")


# What asks no hooks.


def native():
    from pydantic_ai.capabilities import NativeTool
    from pydantic_ai.native_tools import WebSearchTool

    return {"capabilities": [NativeTool(WebSearchTool())]}


def counted():
    from pydantic_ai.usage import UsageLimits

    return {"usage_limits": UsageLimits(count_tokens_before_request=True, input_tokens_limit=9)}


def compacted():
    from pydantic_ai.models.openai import OpenAICompaction

    return {"capabilities": [OpenAICompaction(message_count_threshold=1)]}


def batched():
    from pydantic_ai.capabilities import BatchModelRequests

    return {"capabilities": [BatchModelRequests()]}


@pytest.mark.parametrize(
    ("options", "name"),
    [(batched, "batch_encode"), (native, "WebSearchTool"), (counted, "count_tokens"), (compacted, "OpenAICompaction")],
)
async def test_A17_what_asks_no_hooks_is_refused_by_name(options, name):
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    asked = []

    class Counting(TestModel):
        async def count_tokens(self, *given):
            asked.append("count")

        async def request(self, *given):
            asked.append("request")
            return await super().request(*given)

    async with Host() as host:
        agent = Agent(Counting(profile={"supported_native_tools": native_tools()}), capabilities=[Picohook(host)])
        with pytest.raises(PicohookError, match=rf"{name}: .*: leave it out, or .*unguarded=\['{name}'\]"):
            await agent.run("hello", **options())
    assert asked == []


def native_tools():
    from pydantic_ai.native_tools import SUPPORTED_NATIVE_TOOLS

    return SUPPORTED_NATIVE_TOOLS


async def test_A17_a_realtime_session_is_refused(agent_of):
    async with Host() as host:
        with pytest.raises(PicohookError, match="realtime: hooks are not asked about the model of a realtime session"):
            agent_of(host).realtime("openai:gpt-realtime")


async def test_A17_an_agent_of_a_capability_asks_hooks():
    from pydantic_ai import Agent, BinaryContent
    from pydantic_ai.capabilities import FileUnderstanding
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    asked = []
    async with Host([FunctionHook("h", {"before_llm": asked.append})]) as host:
        blind = TestModel(profile={"supports_image_input": False})
        describer = FileUnderstanding(fallback_subagent_model=TestModel(custom_output_text="a cat"))
        agent = Agent(blind, capabilities=[describer, Picohook(host)])
        await agent.run(["What is it?", BinaryContent(b"x", media_type="image/png")])
    assert len(asked) == 2


async def test_A17_a_model_that_a_capability_puts_in_place_asks_hooks():
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ModelFallback, SelectModel
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel

    from picohook.integrations.pydantic_ai import Picohook

    def fail(messages, info):
        raise ModelAPIError("m", "down")

    asked = []
    stages = {"before_llm": lambda request: asked.append("before"), "after_llm": lambda response: asked.append("after")}
    for capability in (ModelFallback(TestModel()), SelectModel(lambda ctx: TestModel())):
        asked.clear()
        async with Host([FunctionHook("h", stages)]) as host:
            agent = Agent(FunctionModel(fail), capabilities=[capability, Picohook(host)])
            await agent.run("hello")
        assert asked[-2:] == ["before", "after"]
