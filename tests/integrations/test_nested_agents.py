"""Agents inside the tools of other agents, and agents that hand off: who is asked about, and as whom."""

from __future__ import annotations

import pytest

from picohook import (
    AbortTurn,
    Deny,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Host,
    Pause,
    PausedError,
    PicohookError,
)

from .drivers import Agent, scripted_chat, scripted_model

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("frameworks")]

INNER = [[("1", "read", {"path": "a"})], "inner done"]
OUTER = [[("7", "ask", {"input": "hello"})], "outer done"]


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


def nested(sdk, host, how, inner=INNER):
    """An agent of the SDK with another one in its tool; the scripts of both."""
    scripts = Agent(host, OUTER, []), Agent(host, inner, [])
    reader = sdk.Agent(name="reader", model=scripted_model(scripts[1]), tools=[sdk.function_tool(read)])

    async def ask(input: str) -> str:  # noqa: A002 - as the SDK's
        return (await sdk.Runner.run(reader, input)).final_output

    async def streamed(_):
        pass

    tool = {
        "as_tool": lambda: reader.as_tool("ask", "Asks."),
        "as_tool with a config of its own": lambda: reader.as_tool("ask", "Asks.", run_config=sdk.RunConfig()),
        "as_tool, streamed": lambda: reader.as_tool("ask", "Asks.", on_stream=streamed),
        "Runner.run": lambda: sdk.function_tool(ask),
    }[how]()
    return (sdk.Agent(name="outer", model=scripted_model(scripts[0]), tools=[tool]), *scripts)


@pytest.mark.parametrize("how", ["as_tool", "as_tool with a config of its own", "as_tool, streamed", "Runner.run"])
async def test_an_agent_inside_a_tool_asks_hooks_without_being_told_to(sdk, runner_of, how):
    asked = []

    def no(call):
        asked.append(call.tool)
        return Deny("no") if call.tool == "read" else None

    async with Host([FunctionHook("h", {"before_tool": no})]) as host:
        agent, outer, inner = nested(sdk, host, how)
        result = await runner_of(host).run(agent, "hello")
    assert result.final_output == "outer done"
    assert asked == ["ask", "read"]
    assert inner.told == {"1": "Tool execution denied by hook: no"}
    assert outer.told == {"7": "inner done"}


async def test_it_has_a_sub_turn_of_its_own_in_the_session_of_the_outer_one(sdk, runner_of):
    events, metas = [], []
    hook = FunctionHook("h", {"before_tool": lambda call: metas.append(call.meta)}, on_event=events.append)
    async with Host([hook]) as host:
        agent, *_ = nested(sdk, host, "as_tool")
        await runner_of(host).run(agent, "hello", session_id="s1")
    outer, inner = metas
    assert (outer.agent_id, outer.parent_turn_id, outer.session_key) == ("outer", "", "s1")
    assert (inner.agent_id, inner.parent_turn_id, inner.session_key) == ("reader", outer.turn_id, "s1")
    kinds = [event.kind for event in events if event.meta.turn_id == inner.turn_id]
    assert (kinds[:2], kinds[-1]) == (["subturn_spawn", "turn_start"], "subturn_end")
    assert "subturn_orphan" not in {event.kind for event in events}
    assert [event.kind for event in events].count("turn_end") == 2


async def test_it_runs_unguarded_again_when_nothing_guards_the_program(sdk, runner_of):
    asked = []
    async with Host([FunctionHook("h", {"before_tool": asked.append})]) as host:
        agent, *_ = nested(sdk, host, "as_tool")
        await runner_of(host).run(agent, "hello")
        asked.clear()
        agent, *_ = nested(sdk, host, "as_tool")
        assert (await sdk.Runner.run(agent, "hello")).final_output == "outer done"
    assert asked == []


@pytest.mark.parametrize(
    ("decision", "error"), [(HardAbort("enough"), HardAbortError), (Pause("may it?"), PausedError)]
)
async def test_what_ends_the_agent_inside_for_good_ends_the_outer_one(sdk, runner_of, decision, error):
    def judge(call):
        return decision if call.tool == "read" else None

    kinds = []
    async with Host(
        [FunctionHook("h", {"before_tool": judge}, on_event=lambda event: kinds.append(event.kind))]
    ) as host:
        agent, outer, _ = nested(sdk, host, "as_tool")
        with pytest.raises(error):
            await runner_of(host).run(agent, "hello")
    assert len(outer.requests) == 1
    assert kinds.count("turn_end") == 2


async def test_what_ends_the_turn_of_the_agent_inside_is_an_error_of_the_tool(sdk, runner_of):
    results = []
    stages = {
        "before_tool": lambda call: AbortTurn("enough") if call.tool == "read" else None,
        "after_tool": lambda returned: results.append((returned.tool, returned.result.is_error)),
    }
    async with Host([FunctionHook("h", stages)]) as host:
        agent, *_ = nested(sdk, host, "as_tool")
        assert (await runner_of(host).run(agent, "hello")).final_output == "outer done"
    assert results == [("ask", True)]


async def test_run_sync_inside_a_tool_is_refused(sdk, runner_of):
    async with Host() as host:
        script = Agent(host, OUTER, [])

        def ask(input: str) -> str:  # noqa: A002
            return sdk.Runner.run_sync(sdk.Agent(name="inner"), input).final_output

        tool = sdk.function_tool(ask, failure_error_function=None)
        with pytest.raises(Exception, match=r"await `Runner.run`"):
            await runner_of(host).run(sdk.Agent(name="outer", model=scripted_model(script), tools=[tool]), "hello")


async def test_the_agent_id_is_that_of_the_agent_that_speaks(sdk, runner_of):
    asked, answered, called = [], [], []
    stages = {
        "before_llm": lambda request: asked.append(request.meta.agent_id),
        "after_llm": lambda answer: answered.append(answer.meta.agent_id),
        "before_tool": lambda call: called.append(call.meta.agent_id),
    }
    async with Host([FunctionHook("h", stages)]) as host:
        script = Agent(host, [[("0", "transfer_to_reader", {})], *INNER], [])
        model = scripted_model(script)
        reader = sdk.Agent(name="reader", model=model, tools=[sdk.function_tool(read)])
        await runner_of(host).run(sdk.Agent(name="first", model=model, handoffs=[reader]), "hello")
        assert (asked, answered, called) == (["first", "reader", "reader"], ["first", "reader", "reader"], ["reader"])
        asked.clear()
        script = Agent(host, ["done"], [])
        await runner_of(host, agent_id="mine").run(sdk.Agent(name="first", model=scripted_model(script)), "hello")
    assert asked == ["mine"]


async def test_calls_of_one_response_are_one_message(sdk, runner_of):
    seen = []
    async with Host([FunctionHook("h", {"before_llm": lambda request: seen.append(request.messages)})]) as host:
        calls = [(str(number), "read", {"path": str(number)}) for number in range(5)]
        script = Agent(host, [calls, "done"], [])
        await runner_of(host).run(
            sdk.Agent(name="a", model=scripted_model(script), tools=[sdk.function_tool(read)]), "hello"
        )
    assert [message["role"] for message in seen[1]] == ["user", "assistant", *["tool"] * 5]
    assert [call["id"] for call in seen[1][1]["tool_calls"]] == ["0", "1", "2", "3", "4"]


async def test_an_agent_of_pydantic_ai_inside_a_tool_has_a_sub_turn():
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    def script(call, text):
        return lambda messages, info: ModelResponse([call if len(messages) == 1 else TextPart(text)])

    metas = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: metas.append(call.meta)})]) as host:
        inner = pydantic_ai.Agent(
            FunctionModel(script(ToolCallPart("read", {"path": "a"}), "inner done")),
            name="reader",
            tools=[read],
            capabilities=[Picohook(host)],
        )

        async def ask(question: str) -> str:
            return (await inner.run(question)).output

        outer = pydantic_ai.Agent(
            FunctionModel(script(ToolCallPart("ask", {"question": "x"}), "outer done")),
            name="outer",
            tools=[ask],
            capabilities=[Picohook(host)],
        )
        await outer.run("hello", conversation_id="s1")
    first, second = metas
    assert (first.agent_id, first.parent_turn_id, first.session_key) == ("outer", "", "s1")
    assert (second.agent_id, second.parent_turn_id, second.session_key) == ("reader", first.turn_id, "s1")


async def test_an_agent_of_langchain_inside_a_tool_has_a_sub_turn():
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    metas = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: metas.append(call.meta)})]) as host:
        reading = StructuredTool.from_function(func=read, name="read", description="Reads.")
        inner = create_agent(
            scripted_chat(Agent(host, INNER, [])), [reading], middleware=[PicohookMiddleware(host)], name="reader"
        )

        async def ask(input: str) -> str:  # noqa: A002
            return (await inner.ainvoke({"messages": [{"role": "user", "content": input}]}))["messages"][-1].text

        asking = StructuredTool.from_function(coroutine=ask, name="ask", description="Asks.")
        outer = create_agent(
            scripted_chat(Agent(host, OUTER, [])), [asking], middleware=[PicohookMiddleware(host)], name="outer"
        )
        await outer.ainvoke({"messages": [{"role": "user", "content": "hello"}]}, {"configurable": {"thread_id": "s1"}})
    first, second = metas
    assert (first.agent_id, first.parent_turn_id, first.session_key) == ("outer", "", "s1")
    assert (second.agent_id, second.parent_turn_id, second.session_key) == ("reader", first.turn_id, "s1")


def pydantic_agents(host, **settings):
    """An agent of Pydantic AI that asks hooks, and the agent in its tool, with these settings; what tools ran."""
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    def script(call, text):
        return FunctionModel(
            lambda messages, info: ModelResponse([call if len(messages) == 1 else TextPart(text)]),
        )

    ran = []

    async def read(path: str) -> str:
        ran.append(path)
        return f"text of {path}"

    inner = pydantic_ai.Agent(
        script(ToolCallPart("read", {"path": "a"}), "inner done"), name="reader", tools=[read], **settings
    )

    async def ask(question: str) -> str:
        return (await inner.run(question)).output

    outer = pydantic_ai.Agent(
        script(ToolCallPart("ask", {"question": "x"}), "outer done"),
        name="outer",
        tools=[ask],
        capabilities=[Picohook(host)],
    )
    return outer, inner, ran


@pytest.mark.parametrize("how", ["without a Picohook", "with one"])
async def test_an_agent_of_pydantic_ai_inside_a_tool_asks_hooks_once_without_being_told_to(how):
    from picohook.integrations.pydantic_ai import Picohook

    asked, models = [], []
    stages = {
        "before_llm": lambda request: models.append(request.meta.agent_id),
        "before_tool": lambda call: asked.append((call.tool, call.meta)),
        "approve_tool": lambda call: call.tool != "read",
    }
    async with Host([FunctionHook("h", stages)]) as host:
        outer, inner, ran = pydantic_agents(host, capabilities=[Picohook(host)] if how == "with one" else [])
        await outer.run("hello", conversation_id="s1")
        assert (ran, models) == ([], ["outer", "reader", "reader", "outer"])
        (first, outside), (second, inside) = asked
        assert (first, second) == ("ask", "read")
        assert (inside.agent_id, inside.parent_turn_id, inside.session_key) == ("reader", outside.turn_id, "s1")
        if how == "without a Picohook":
            await inner.run("hello")
            assert (ran, len(asked)) == (["a"], 2)


async def test_an_agent_of_pydantic_ai_that_makes_the_output_of_another_asks_hooks():
    import pydantic_ai
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    asked = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool) or Deny("no")})]) as host:
        _, inner, ran = pydantic_agents(host)

        async def hand_off(question: str) -> str:
            return (await inner.run(question)).output

        model = FunctionModel(
            lambda _, info: ModelResponse([ToolCallPart(info.output_tools[0].name, {"question": "x"})])
        )
        router = pydantic_ai.Agent(model, output_type=hand_off, capabilities=[Picohook(host)])
        assert (await router.run("hello")).output == "inner done"
    assert (asked, ran) == (["read"], [])


def langchain_agents(host, inner_middleware=(), script=INNER):
    """An agent of LangChain that asks hooks, and the agent in its tool; what tools ran, and the inner one's script."""
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    ran = []
    reading = reading_into(ran)
    asked = Agent(host, script, [])
    inner = create_agent(scripted_chat(asked), [reading], middleware=inner_middleware, name="reader")

    async def ask(input: str) -> str:  # noqa: A002
        return (await inner.ainvoke({"messages": [{"role": "user", "content": input}]}))["messages"][-1].text

    asking = StructuredTool.from_function(coroutine=ask, name="ask", description="Asks.")
    outer = create_agent(
        scripted_chat(Agent(host, OUTER, [])), [asking], middleware=[PicohookMiddleware(host)], name="outer"
    )
    return outer, inner, ran, asked


def reading_into(ran):
    """A tool of LangChain that notes what it was called for."""
    from langchain_core.tools import StructuredTool

    def read(path: str) -> None:
        ran.append(path)

    return StructuredTool.from_function(func=read, name="read", description="Reads.")


HELLO = {"messages": [{"role": "user", "content": "hello"}]}


async def test_an_agent_of_langchain_inside_a_tool_that_asks_no_hooks_is_refused():
    async with Host([FunctionHook("h", {"before_tool": lambda call: None})]) as host:
        outer, inner, ran, asked = langchain_agents(host)
        with pytest.raises(
            PicohookError, match=r"the agent reader that runs inside a tool would call the model.*PicohookMiddleware"
        ):
            await outer.ainvoke(HELLO)
        assert (ran, asked.requests) == ([], [])
        await inner.ainvoke(HELLO)
    assert ran == ["a"]


async def test_a_graph_of_ones_own_inside_a_tool_runs_what_its_model_calls_only_where_hooks_are_asked():
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from picohook.integrations.langchain import PicohookMiddleware

    ran, seen = [], []

    def graph(host, **settings):
        def think(state):
            del state
            return {"messages": [AIMessage("", tool_calls=[{"id": "1", "name": "read", "args": {"path": "a"}}])]}

        reading = reading_into(ran)
        made = StateGraph(MessagesState)
        made.add_node("think", think)
        made.add_node("act", ToolNode([reading], **settings))
        made.add_edge("__start__", "think")
        made.add_edge("think", "act")
        graph = made.compile()

        async def ask(input: str) -> str:  # noqa: A002
            return (await graph.ainvoke({"messages": [{"role": "user", "content": input}]}))["messages"][-1].text

        asking = StructuredTool.from_function(coroutine=ask, name="ask", description="Asks.")
        return create_agent(scripted_chat(Agent(host, OUTER, [])), [asking], middleware=[PicohookMiddleware(host)])

    async with Host([FunctionHook("h", {"before_tool": lambda call: seen.append(call.tool)})]) as host:
        with pytest.raises(PicohookError, match="would call the tool read"):
            await graph(host).ainvoke(HELLO)
        assert (ran, seen) == ([], ["ask"])
        await graph(host, awrap_tool_call=PicohookMiddleware(host).awrap_tool_call).ainvoke(HELLO)
    assert (ran, seen) == (["a"], ["ask", "ask", "read"])


async def test_what_the_tool_of_a_langchain_agent_does_itself_is_not_refused():
    from langchain.agents import create_agent
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    ran = []
    async with Host([FunctionHook("h", {"before_tool": lambda call: None})]) as host:
        reading = reading_into(ran)
        chat = scripted_chat(Agent(host, ["a"], []))

        async def ask(input: str) -> str:  # noqa: A002
            said = await (RunnableLambda(lambda text: text) | chat).ainvoke(input)
            await reading.ainvoke({"type": "tool_call", "id": "9", "name": "read", "args": {"path": said.text}})
            return "asked"

        asking = StructuredTool.from_function(coroutine=ask, name="ask", description="Asks.")
        script = Agent(host, OUTER, [])
        await create_agent(scripted_chat(script), [asking], middleware=[PicohookMiddleware(host)]).ainvoke(HELLO)
    assert (ran, script.told) == (["a"], {"7": "asked"})


@pytest.mark.parametrize("guarded", [True, False])
async def test_an_agent_of_langchain_that_another_hands_off_to_asks_hooks_or_is_refused(guarded):
    from langchain.agents import create_agent
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.types import Command

    from picohook.integrations.langchain import PicohookMiddleware

    ran, asked = [], []

    def transfer():
        done = ToolMessage("transferred", tool_call_id="5")
        return Command(goto="bob", graph=Command.PARENT, update={"messages": [done]})

    transferring = StructuredTool.from_function(func=transfer, name="transfer", description="Hands off.")
    async with Host([FunctionHook("h", {"before_tool": lambda call: asked.append(call.tool)})]) as host:
        guard = [PicohookMiddleware(host)]
        first, second = Agent(host, [[("5", "transfer", {})]], []), Agent(host, INNER, [])
        alice = create_agent(scripted_chat(first), [transferring], middleware=guard, name="alice")
        bob = create_agent(scripted_chat(second), [reading_into(ran)], middleware=guard if guarded else [], name="bob")
        graph = StateGraph(MessagesState)
        graph.add_node("alice", alice, destinations=("bob",))
        graph.add_node("bob", bob)
        graph.add_edge("__start__", "alice")
        made = graph.compile()
        if guarded:
            await made.ainvoke(HELLO)
            assert (asked, ran) == (["transfer", "read"], ["a"])
        else:
            with pytest.raises(PicohookError, match="the agent bob that runs after a handoff would call the model"):
                await made.ainvoke(HELLO)
            assert (asked, ran, second.requests) == (["transfer"], [], [])
