"""Agents of LangChain inside tools of other agents, and after a handoff: hooks are asked about each, or it is refused."""

from __future__ import annotations

import pytest

from picohook import (
    FunctionHook,
    Host,
    PicohookError,
)

from .drivers import Agent, scripted_chat

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

INNER = [[("1", "read", {"path": "a"})], "inner done"]
OUTER = [[("7", "ask", {"input": "hello"})], "outer done"]


def read(path: str) -> str:
    return f"text of {path}"


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
            PicohookError,
            match=r"the agent reader inside a tool calls the model without asking hooks.*PicohookMiddleware",
        ):
            await outer.ainvoke(HELLO)
        assert (ran, asked.requests) == ([], [])
        await inner.ainvoke(HELLO)
    assert ran == ["a"]


async def test_a_custom_graph_inside_a_tool_runs_tools_only_if_hooks_are_asked():
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
        with pytest.raises(PicohookError, match="calls the tool read without asking hooks"):
            await graph(host).ainvoke(HELLO)
        assert (ran, seen) == ([], ["ask"])
        await graph(host, awrap_tool_call=PicohookMiddleware(host).awrap_tool_call).ainvoke(HELLO)
    assert (ran, seen) == (["a"], ["ask", "ask", "read"])


async def test_calls_by_the_code_of_a_langchain_tool_are_not_refused():
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
            with pytest.raises(
                PicohookError, match="the agent bob after a handoff calls the model without asking hooks"
            ):
                await made.ainvoke(HELLO)
            assert (asked, ran, second.requests) == (["transfer"], [], [])
