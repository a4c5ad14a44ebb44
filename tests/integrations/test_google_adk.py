"""What is Google ADK's own."""

from __future__ import annotations

from contextlib import nullcontext

import anyio
import pytest

from picohook import Deny, FunctionHook, Host, Modify, PicohookError, Respond, Retry

from .drivers import Agent, adk_runner, run_google_adk, scripted_llm

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.one_worker("frameworks"),
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning"),  # ADK's, about parts that these tests use
]

ONE = [[("1", "read", {"path": "a"})], "done"]


def read(path: str) -> str:
    return f"text of {path}"


def no(call):
    return Deny("no") if call.tool == "read" else None


@pytest.fixture
def adk():
    from google.adk import agents

    return agents


async def ask(runner, agent, **options):
    """Runs this runner's agent once. Returns the texts of its final events."""
    from google.genai import types

    said = types.Content(role="user", parts=[types.Part(text="hello")])
    events = runner.run_async(user_id="u", session_id=agent.session, new_message=said, **options)
    return [event.content.parts[0].text async for event in events if event.content and event.content.parts[0].text]


async def test_hooks_are_asked_about_a_sub_agent_under_its_name(adk):
    metas = []
    stages = {"before_tool": no, "before_llm": lambda request: metas.append(request.meta)}
    async with Host([FunctionHook("h", stages)]) as host:
        agent = Agent(host, [[("0", "transfer_to_agent", {"agent_name": "reader"})], *ONE], [])
        model = scripted_llm(agent)
        reader = adk.LlmAgent(name="reader", description="Reads.", model=model, tools=[read])
        first = adk.LlmAgent(name="first", model=model, sub_agents=[reader])
        async with await adk_runner(agent, first) as runner:
            assert await ask(runner, agent) == ["done"]
    assert agent.told["1"] == "Tool execution denied by hook: no"
    assert [meta.agent_id for meta in metas] == ["first", "reader", "reader"]
    assert len({meta.turn_id for meta in metas}) == 1


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # ADK's own use of it
async def test_an_agent_that_is_a_tool_has_a_sub_turn_in_the_same_session(adk):
    from google.adk.tools.agent_tool import AgentTool

    metas = {}
    stages = {"before_tool": lambda call: metas.setdefault(call.tool, call.meta) and no(call)}
    async with Host([FunctionHook("h", stages)]) as host:
        agent = Agent(host, [[("7", "reader", {"request": "hello"})], *ONE, "fine"], [])
        model = scripted_llm(agent)
        reader = adk.LlmAgent(name="reader", description="Reads.", model=model, tools=[read])
        outer = adk.LlmAgent(name="outer", model=model, tools=[AgentTool(reader)])
        async with await adk_runner(agent, outer) as runner:
            assert await ask(runner, agent) == ["fine"]
    assert agent.told["1"] == "Tool execution denied by hook: no"
    assert metas["read"].parent_turn_id == metas["reader"].turn_id
    assert metas["read"].session_key == metas["reader"].session_key == "s1"
    assert (metas["reader"].agent_id, metas["read"].agent_id) == ("outer", "reader")


async def test_hooks_see_the_arguments_that_the_agents_own_callbacks_left(adk):
    seen = []
    async with Host(
        [FunctionHook("h", {"approve_tool": lambda call: seen.append(dict(call.arguments)) or True})]
    ) as host:
        agent = Agent(host, ONE, [])

        def change(tool, args, tool_context):
            args["path"] = "../b"

        root = adk.LlmAgent(name="root", model=scripted_llm(agent), tools=[read], before_tool_callback=change)
        async with await adk_runner(agent, root) as runner:
            await ask(runner, agent)
    assert seen == [{"path": "../b"}]
    assert agent.told == {"1": "text of ../b"}


async def test_a_runner_without_the_plugin_asks_no_hooks(adk):
    from google.adk.runners import InMemoryRunner

    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        agent = Agent(host, ONE * 2, [])
        root = adk.LlmAgent(name="root", model=scripted_llm(agent), tools=[read])
        async with await adk_runner(agent, root) as runner:
            await ask(runner, agent)
        assert agent.told == {"1": "Tool execution denied by hook: no"}
        async with InMemoryRunner(root, app_name="test") as plain:
            await plain.session_service.create_session(app_name="test", user_id="u", session_id=agent.session)
            assert await ask(plain, agent) == ["done"]
    assert agent.told == {"1": "text of a"}


async def test_a_tool_that_the_user_has_to_confirm_is_asked_about_when_it_runs(adk):
    from google.adk.tools.function_tool import FunctionTool
    from google.genai import types

    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool) or no(call)})]) as host:
        agent = Agent(host, [ONE[0], "waiting", "done"], [])
        tool = FunctionTool(read, require_confirmation=True)
        root = adk.LlmAgent(name="root", model=scripted_llm(agent), tools=[tool])
        async with await adk_runner(agent, root) as runner:
            said = types.Content(role="user", parts=[types.Part(text="hello")])
            given = {"user_id": "u", "session_id": agent.session}
            requests = [
                call
                async for event in runner.run_async(**given, new_message=said)
                for call in event.get_function_calls()
                if call.name == "adk_request_confirmation"
            ]
            assert asked == []
            yes = types.FunctionResponse(id=requests[0].id, name=requests[0].name, response={"confirmed": True})
            answer = types.Content(role="user", parts=[types.Part(function_response=yes)])
            async for _ in runner.run_async(**given, new_message=answer):
                pass
    assert asked == ["read"]
    assert agent.told["1"] == "Tool execution denied by hook: no"


async def test_a_hook_can_ask_the_model_again(adk):
    answers = []

    def judge(answer):
        answers.append(answer.response["content"])
        return Retry("Say more.") if len(answers) == 1 else None

    async with Host([FunctionHook("h", {"after_llm": judge})]) as host:
        agent = Agent(host, ["short", "much longer"], [])
        assert await run_google_adk(agent) == "much longer"
    assert answers == ["short", "much longer"]
    assert agent.requests[1].texts[-1] == "Say more."


async def test_a_text_and_the_calls_that_a_model_sends_after_it_are_one_response(adk):
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class InTwo(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002
            last = llm_request.contents[-1].parts[0]
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Now then.")]))
            if last.function_response is None:
                call = types.FunctionCall(id="1", name="read", args={"path": "a"})
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))

    seen, ran = [], []

    def read(path: str) -> str:
        ran.append(path)
        return path

    def judge(answer):
        seen.append((answer.response["content"], len(answer.response.get("tool_calls", []))))
        return Modify({"tool_calls": []}) if answer.response.get("tool_calls") else None

    async with Host([FunctionHook("h", {"after_llm": judge})]) as host:
        agent = Agent(host, [], [])
        root = adk.LlmAgent(name="root", model=InTwo(model="two"), tools=[read])
        async with await adk_runner(agent, root) as runner:
            assert await ask(runner, agent) == ["Now then."]
    assert seen == [("Now then.", 1)]
    assert ran == []


def llm_agent(adk, script, **more):
    return adk.LlmAgent(name="a", model=scripted_llm(script), **more)


def parts(adk):
    """Parts of a run that ask no hooks, by name: the agent, and what more is given to the app."""
    from google.adk.agents import ManagedAgent
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.code_executors import UnsafeLocalCodeExecutor
    from google.adk.tools.environment_simulation.environment_simulation_plugin import EnvironmentSimulationPlugin
    from google.adk.workflow import Workflow

    def code(script, **more):
        return llm_agent(adk, script, code_executor=UnsafeLocalCodeExecutor(), **more)

    compaction = {"events_compaction_config": EventsCompactionConfig(compaction_interval=1, overlap_size=0)}
    managed = ManagedAgent.model_construct(name="managed", sub_agents=[])
    simulation = EnvironmentSimulationPlugin.__new__(EnvironmentSimulationPlugin)
    simulation.name = "simulation"
    return {
        "UnsafeLocalCodeExecutor": (code, {}),
        "UnsafeLocalCodeExecutor of a sub-agent": (
            lambda script: llm_agent(adk, script).model_copy(update={"sub_agents": [code(script)]}),
            {},
        ),
        "UnsafeLocalCodeExecutor in a workflow": (
            lambda script: Workflow(name="w", edges=[("START", code(script))]),
            {},
        ),
        "ManagedAgent": (lambda _: managed, {}),
        "EventsCompactionConfig": (lambda script: llm_agent(adk, script), compaction),
        "EnvironmentSimulationPlugin": (lambda script: llm_agent(adk, script), {"plugins": [simulation]}),
    }


async def test_A17_a_part_that_asks_no_hooks_is_refused_by_name(adk):
    for name, (made, more) in parts(adk).items():
        async with Host() as host:
            agent = Agent(host, ["done"], [])
            async with await adk_runner(agent, made(agent), **more) as runner:
                with pytest.raises(RuntimeError, match=rf"{name.split()[0]}: .*: leave it out, or .*unguarded="):
                    await ask(runner, agent)
            assert agent.requests == []


async def test_A17_code_of_the_model_runs_only_if_the_executor_is_named(adk, tmp_path):
    from google.adk.code_executors import UnsafeLocalCodeExecutor

    ran = tmp_path / "ran"
    for unguarded in ((), ["UnsafeLocalCodeExecutor"]):
        async with Host() as host:
            agent = Agent(host, [f"```python\nopen({str(ran)!r}, 'w')\n```", "done"], [])
            root = llm_agent(adk, agent, code_executor=UnsafeLocalCodeExecutor())
            async with await adk_runner(agent, root, unguarded=unguarded) as runner:
                with pytest.raises(RuntimeError, match="it runs the model's code") if not unguarded else nullcontext():
                    await ask(runner, agent)
        assert ran.exists() is bool(unguarded)


@pytest.mark.parametrize("how", ["tool", "settings"])
async def test_A17_a_tool_that_runs_at_the_provider_is_refused_by_name(adk, how):
    from google.adk.tools import url_context
    from google.genai import types

    hosted = types.GenerateContentConfig(tools=[types.Tool(url_context=types.UrlContext())])
    async with Host() as host:
        agent = Agent(host, ["done"], [])
        root = llm_agent(adk, agent, tools=[url_context] if how == "tool" else [])
        root.generate_content_config = hosted if how == "settings" else None
        object.__setattr__(root.model, "model", "gemini-2.5-flash")  # ADK offers such tools to Gemini alone
        async with await adk_runner(agent, root) as runner:
            with pytest.raises(RuntimeError, match=r"url_context: this tool runs at the provider"):
                await ask(runner, agent)
        assert agent.requests == []


async def test_A17_an_agent_tool_without_plugins_is_refused_and_so_is_an_advisor(adk):
    from google.adk.tools.agent_tool import AgentTool
    from google.adk.tools.model_consult import ModelConsultTool

    async with Host() as host:
        inner, advisor = Agent(host, ["inner"], []), Agent(host, ["advice"], [])
        for tool, name in (
            (AgentTool(llm_agent(adk, inner), include_plugins=False), "AgentTool"),
            (ModelConsultTool(model=scripted_llm(advisor)), "ModelConsultTool"),
        ):
            agent = Agent(host, [[("1", tool.name, {"request": "x"})], "done"], [])
            async with await adk_runner(
                agent, adk.LlmAgent(name="b", model=scripted_llm(agent), tools=[tool])
            ) as runner:
                with pytest.raises(RuntimeError, match=rf"{name}: .*unguarded="):
                    await ask(runner, agent)
        assert inner.requests == advisor.requests == []


async def test_A17_the_answer_of_a_model_that_is_not_the_agents_is_refused(adk):
    async with Host() as host:
        script = Agent(host, ["done"], [])

        class Routed(adk.LlmAgent):
            async def canonical_model_async(self, ctx):
                return scripted_llm(script)  # another one each time

        async with await adk_runner(script, Routed(name="a")) as runner:
            with pytest.raises(RuntimeError, match="a: another model than the agent's was asked, and no hook"):
                await ask(runner, script)


async def test_a_live_run_is_refused(adk):
    async with Host() as host:
        agent = Agent(host, [], [])
        root = adk.LlmAgent(name="root", model=scripted_llm(agent))
        async with await adk_runner(agent, root) as runner:
            events = runner.run_live(user_id="u", session_id=agent.session, live_request_queue=adk.LiveRequestQueue())
            with pytest.raises(RuntimeError, match="cannot be asked in a live run: use `run_async`") as raised:
                await anext(events)
    assert isinstance(raised.value.__cause__, PicohookError)


async def test_an_answer_of_a_hook_is_what_a_tool_returned(adk):
    async with Host([FunctionHook("h", {"before_tool": lambda _: Respond({"for_llm": "from the hook"})})]) as host:
        agent = Agent(host, ONE, [])
        results = []

        def note(tool, args, tool_context, tool_response):
            results.append(tool_response)

        root = adk.LlmAgent(name="root", model=scripted_llm(agent), tools=[read], after_tool_callback=note)
        async with await adk_runner(agent, root) as runner:
            await ask(runner, agent)
    assert results == [{"result": "from the hook"}]


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated:DeprecationWarning")
async def test_each_of_two_agents_that_run_at_the_same_time_has_its_own_id(adk):
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    both_ask, ran = anyio.Event(), []

    class Model(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002
            if len(llm_request.contents) > 1:
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="done")]))
                return
            if self.model == "writer":  # the last agent that asked its model is the reader then
                await both_ask.wait()
            both_ask.set()
            call = types.FunctionCall(id="1", name="read", args={"path": self.model})
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))

    def read(path: str) -> str:
        ran.append(path)
        return path

    guard = FunctionHook("guard", {"before_tool": no}, filter={"agent": "writer"})
    async with Host([guard]) as host:
        agent = Agent(host, [], [])
        agents = [adk.LlmAgent(name=name, model=Model(model=name), tools=[read]) for name in ("writer", "reader")]
        async with await adk_runner(agent, adk.ParallelAgent(name="both", sub_agents=agents)) as runner:
            await ask(runner, agent)
    assert ran == ["reader"]


async def test_a_copy_of_a_tool_is_asked_about_by_its_own_name(adk):
    import copy

    from google.adk.tools.function_tool import FunctionTool

    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool)})]) as host:
        agent = Agent(host, [*ONE, [("2", "files_read", {"path": "b"})], "done"], [])
        tool = FunctionTool(read)
        root = adk.LlmAgent(name="root", model=scripted_llm(agent), tools=[tool])
        async with await adk_runner(agent, root) as runner:
            await ask(runner, agent)
            root.tools = [copy.copy(tool)]
            root.tools[0].name = "files_read"  # as a toolset with a prefix does
            await ask(runner, agent)
    assert asked == ["read", "files_read"]
    assert agent.told["2"] == "text of b"
