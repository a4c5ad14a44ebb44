"""What is LangChain's own."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pytest

from picohook import AbortTurn, AbortTurnError, FunctionHook, Host, Modify, PicohookError, Respond

from .drivers import Agent, run_langchain, scripted_chat

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

ONE = [[("1", "read", {"path": "a"})], "done"]


def read(path: str) -> str:
    return path


async def test_a_call_that_the_framework_tries_again_is_decided_on_once():
    from langchain.agents.middleware import ToolRetryMiddleware

    seen = {"before_tool": [], "approve_tool": [], "after_tool": []}
    tries = []

    def read(path: str) -> str:
        tries.append(path)
        if len(tries) == 1:
            raise OSError("busy")
        return f"text of {path}"

    def note(payload, stage):
        seen[stage].append(payload.tool_call_id)
        return True if stage == "approve_tool" else None

    stages = {stage: lambda payload, stage=stage: note(payload, stage) for stage in seen}
    async with Host([FunctionHook("h", stages)]) as host:
        agent = Agent(host, ONE, [read])
        again = ToolRetryMiddleware(max_retries=1, initial_delay=0)
        assert await run_langchain(agent, middleware=[again]) == "done"
    assert tries == ["a", "a"]
    assert agent.told == {"1": "text of a"}
    assert seen == {"before_tool": ["1"], "approve_tool": ["1"], "after_tool": ["1", "1"]}


async def test_a_retried_call_that_a_middleware_changed_is_decided_on_again():
    from langchain.agents.middleware import AgentMiddleware

    class Twice(AgentMiddleware):
        async def awrap_tool_call(self, request, handler):
            await handler(request)
            return await handler(request.override(tool_call={**request.tool_call, "args": {"path": "b"}}))

    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.arguments["path"])})]) as host:
        agent = Agent(host, ONE, [read])
        await run_langchain(agent, middleware=[Twice()])
    assert asked == ["a", "b"]


async def test_equal_ids_in_two_responses_are_two_calls():
    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.arguments["path"])})]) as host:
        agent = Agent(host, [ONE[0], ONE[0], "done"], [read])
        await run_langchain(agent)
    assert asked == ["a", "a"]


async def test_a_tool_that_interrupts_the_graph_resumes_without_a_new_decision():
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt

    from picohook.integrations.langchain import PicohookMiddleware

    seen = {"before_tool": [], "after_tool": []}
    kinds = []

    def read(path: str) -> str:
        return f"{interrupt('may I?')}: text of {path}"

    stages = {stage: lambda payload, stage=stage: seen[stage].append(payload.tool_call_id) for stage in seen}
    async with Host([FunctionHook("h", stages, on_event=lambda event: kinds.append(event.kind))]) as host:
        agent = Agent(host, ONE, [])
        made = create_agent(
            scripted_chat(agent),
            [StructuredTool.from_function(read, description="Reads.")],
            middleware=[PicohookMiddleware(host)],
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": "s1"}}
        waiting = await made.ainvoke({"messages": [{"role": "user", "content": "hello"}]}, config)
        assert [one.value for one in waiting["__interrupt__"]] == ["may I?"]
        assert seen == {"before_tool": ["1"], "after_tool": []}
        result = await made.ainvoke(Command(resume="yes"), config)
    assert result["messages"][-1].text == "done"
    assert agent.told == {"1": "yes: text of a"}
    assert seen == {"before_tool": ["1"], "after_tool": ["1"]}
    assert (kinds.count("turn_start"), kinds.count("turn_end")) == (1, 1)
    assert "picohook_turn" not in result


async def test_the_state_update_of_a_tool_survives_a_changed_message():
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentState
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import InjectedToolCallId, StructuredTool
    from langgraph.types import Command

    from picohook.integrations.langchain import PicohookMiddleware

    class State(AgentState):
        place: str

    def read(path, tool_call_id):
        return Command(update={"place": path, "messages": [ToolMessage(f"secret {path}", tool_call_id=tool_call_id)]})

    read.__annotations__ = {"path": str, "tool_call_id": Annotated[str, InjectedToolCallId]}

    async with Host([FunctionHook("h", {"after_tool": lambda _: Modify({"for_llm": "hidden"})})]) as host:
        agent = Agent(host, ONE, [])
        tool = StructuredTool.from_function(read, description="Reads.")
        made = create_agent(scripted_chat(agent), [tool], middleware=[PicohookMiddleware(host)], state_schema=State)
        result = await made.ainvoke({"messages": [{"role": "user", "content": "hello"}]})
    assert result["place"] == "a"
    assert agent.told == {"1": "hidden"}


async def test_a_changed_result_has_no_artifact():
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    def read(path: str):
        return "a secret", {"raw": "a secret"}

    async with Host([FunctionHook("h", {"after_tool": lambda _: Modify({"for_llm": "hidden"})})]) as host:
        tool = StructuredTool.from_function(read, description="Reads.", response_format="content_and_artifact")
        made = create_agent(scripted_chat(Agent(host, ONE, [])), [tool], middleware=[PicohookMiddleware(host)])
        result = await made.ainvoke({"messages": [{"role": "user", "content": "hello"}]})
    assert "secret" not in str(result)


async def test_a_changed_structured_answer_is_dropped():
    from langchain.agents import create_agent
    from langchain.agents.structured_output import ToolStrategy
    from pydantic import create_model

    from picohook.integrations.langchain import PicohookMiddleware

    def judge(answer):
        calls = answer.response.get("tool_calls")
        if not calls:
            return None
        function = {**calls[0]["function"], "arguments": '{"text": "hidden"}'}
        return Modify({"tool_calls": [{**calls[0], "function": function}]})

    async with Host([FunctionHook("h", {"after_llm": judge})]) as host:
        agent = Agent(host, [[("1", "Answer", {"text": "secret"})], "done"], [])
        made = create_agent(
            scripted_chat(agent),
            response_format=ToolStrategy(create_model("Answer", text=str)),
            middleware=[PicohookMiddleware(host)],
        )
        result = await made.ainvoke({"messages": [{"role": "user", "content": "hello"}]})
    assert result["structured_response"] is None
    assert "hidden" in str(result)
    assert "secret" not in str(result)


async def test_a_tool_that_a_hook_adds_is_offered_and_answered_by_it():
    weather = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}

    def answer(call):
        return Respond({"for_llm": "rain"}) if call.tool == "weather" else None

    stages = {"before_llm": lambda request: Modify({"tools": [*request.tools, weather]}), "before_tool": answer}
    async with Host([FunctionHook("h", stages)]) as host:
        agent = Agent(host, [[("1", "weather", {})], "done"], [read])
        assert await run_langchain(agent) == "done"
    assert agent.requests[0].tools == ["read", "weather"]
    assert agent.told == {"1": "rain"}


async def test_the_model_is_told_of_wrong_arguments_as_without_hooks():
    async with Host([FunctionHook("h", {"before_tool": lambda _: None})]) as host:
        agent = Agent(host, [[("1", "read", {"file": "a"})], "done"], [read])
        assert await run_langchain(agent) == "done"
    assert "path" in agent.told["1"]
    assert "Field required" in agent.told["1"]


async def test_an_agent_inside_a_tool_that_hooks_end_is_a_failed_tool():
    def judge(call):
        return AbortTurn("not in there") if call.arguments["path"] == "inner" else None

    async with Host([FunctionHook("h", {"before_tool": judge})]) as host:

        async def read(path: str) -> str:
            inner = Agent(host, [[("1", "read", {"path": "inner"})]], [read], session="s2")
            return await run_langchain(inner, path)

        agent = Agent(host, ONE, [read])
        assert await run_langchain(agent) == "done"
    assert agent.told == {"1": "AbortTurnError: not in there"}


async def test_a_run_that_hooks_ended_stays_ended():
    from langchain.agents.middleware import ModelRetryMiddleware

    asked = []

    def judge(request):
        asked.append(request)
        return AbortTurn("enough")

    async with Host([FunctionHook("h", {"before_llm": judge})]) as host:
        again = ModelRetryMiddleware(max_retries=2, initial_delay=0, on_failure="error")
        with pytest.raises(AbortTurnError, match="enough"):
            await run_langchain(Agent(host, ONE, []), middleware=[again])
    assert len(asked) == 1


async def test_hooks_see_the_settings_that_the_model_itself_was_made_with():
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from picohook.integrations.langchain import PicohookMiddleware

    class Warm(GenericFakeChatModel):
        temperature: float = 0.7

    events, options = [], []
    hook = FunctionHook("h", {"before_llm": lambda request: options.append(request.options)}, on_event=events.append)
    async with Host([hook]) as host:
        model = Warm(messages=iter([AIMessage("done")]))
        agent = create_agent(model, [], middleware=[PicohookMiddleware(host)])
        await agent.ainvoke({"messages": [{"role": "user", "content": "hello"}]})
        await host.emit_and_wait("turn_start")
    assert options == [{"temperature": 0.7}]
    assert [event.payload["Temperature"] for event in events if event.kind == "llm_request"] == [0.7]


async def test_a_call_that_a_middleware_changes_in_place_while_hooks_decide_runs_as_they_saw_it():
    from langchain.agents.middleware import AgentMiddleware

    held, ran = [], []

    class Holds(AgentMiddleware):
        async def awrap_tool_call(self, request, handler):
            held.append(request.tool_call["args"])
            return await handler(request)

    def read(path: str) -> str:
        ran.append(path)
        return path

    async def meddle(_):
        held[0]["path"] = "evil"

    async with Host([FunctionHook("h", {"before_tool": meddle})]) as host:
        await run_langchain(Agent(host, ONE, [read]), middleware=[Holds()])
    assert ran == ["a"]


# What asks no hooks.


def by_itself():
    """Middlewares that ask a model by themselves: of LangChain, and of one's own."""
    from langchain.agents.middleware import (
        AgentMiddleware,
        LLMToolEmulator,
        LLMToolSelectorMiddleware,
        SummarizationMiddleware,
    )
    from langchain_core.messages import HumanMessage

    class Early(AgentMiddleware):
        def __init__(self, model):
            self.model = model

        async def abefore_agent(self, state, runtime):
            await self.model.ainvoke("hello")

    class Quiet(AgentMiddleware):
        def __init__(self, model):
            self.model = model

        async def abefore_model(self, state, runtime):
            with suppress(Exception):
                await self.model.ainvoke("hello")

    class Hidden(AgentMiddleware):
        def __init__(self, model):
            self.model = model

        async def abefore_model(self, state, runtime):
            await self.model.ainvoke("hello", config={"callbacks": []})

    class Bare(AgentMiddleware):
        def __init__(self, model):
            self.model = model

        async def abefore_model(self, state, runtime):
            await self.model.agenerate([[HumanMessage("hello")]])

    return {
        "Hidden": Hidden,
        "Bare": Bare,
        "SummarizationMiddleware": lambda model: SummarizationMiddleware(
            model, trigger=("messages", 1), keep=("messages", 1)
        ),
        "model": lambda model: LLMToolSelectorMiddleware(model=model),
        "tools": lambda model: LLMToolEmulator(model=model),
        "Early": Early,
        "Quiet": Quiet,
    }


@pytest.mark.parametrize("name", ["SummarizationMiddleware", "model", "tools", "Early", "Quiet", "Hidden", "Bare"])
async def test_A17_a_middleware_that_asks_a_model_by_itself_is_refused_by_name(name):
    async with Host() as host:
        other = Agent(host, ["a word"] * 9, [])
        agent = Agent(host, [*ONE, *ONE], [read])
        middleware = by_itself()[name](scripted_chat(other))
        long = [("user", "a secret"), ("ai", "well"), ("user", "hello")]
        with pytest.raises(PicohookError, match=rf"{name}: .*: leave it out, or .*unguarded=\['{name}'\]"):
            await run_langchain(agent, long, middleware=[middleware])
        assert len(other.requests) == (name == "Early")  # it is not known before that hooks guard this agent
        assert len(agent.requests) == (name == "tools")


@pytest.mark.parametrize("name", ["SummarizationMiddleware", "Quiet"])
async def test_a_middleware_that_unguarded_names_asks_its_model(name):
    async with Host() as host:
        other = Agent(host, ["a word"] * 9, [])
        agent = Agent(host, ONE, [read])
        long = [("user", "a secret"), ("ai", "well"), ("user", "hello")]
        middleware = by_itself()[name](scripted_chat(other))
        assert await run_langchain(agent, long, middleware=[middleware], unguarded=[name]) == "done"
        assert other.requests


async def test_a_tool_and_a_fallback_may_ask_models():
    from langchain.agents.middleware import ModelFallbackMiddleware

    asked = []
    async with Host([FunctionHook("h", {"before_llm": lambda request: asked.append(1)})]) as host:
        other = Agent(host, [ONE[0], "a word", ONE[1]], [])

        async def read(path: str) -> str:
            return (await scripted_chat(other).ainvoke(path)).text

        agent = Agent(host, [], [read])  # its model fails
        assert await run_langchain(agent, middleware=[ModelFallbackMiddleware(scripted_chat(other))]) == "done"
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search_20250305"),
        ({"google_search": {}}, "google_search"),
    ],
)
async def test_A17_a_tool_that_runs_at_the_provider_is_refused_by_name(tool, name):
    from langchain.agents import create_agent

    from picohook.integrations.langchain import PicohookMiddleware

    async with Host() as host:
        agent = Agent(host, ["done"], [])
        made = create_agent(scripted_chat(agent), [tool], middleware=[PicohookMiddleware(host)])
        with pytest.raises(PicohookError, match=f"{name}: this tool runs at the provider"):
            await made.ainvoke({"messages": [("user", "hello")]})
        assert agent.requests == []
