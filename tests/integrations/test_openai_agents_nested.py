"""Agents of the OpenAI Agents SDK inside tools of other agents: hooks are asked about both, under their own names."""

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
)

from .drivers import Agent, scripted_model

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

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
async def test_an_agent_inside_a_tool_asks_hooks_by_itself(sdk, runner_of, how):
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


async def test_it_has_a_sub_turn_in_the_session_of_the_outer_agent(sdk, runner_of):
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


async def test_it_runs_without_hooks_outside_of_a_guarded_run(sdk, runner_of):
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
async def test_a_hard_abort_or_a_pause_of_the_inner_agent_ends_the_outer_one(sdk, runner_of, decision, error):
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


async def test_an_abort_of_the_inner_turn_is_an_error_of_the_tool(sdk, runner_of):
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


async def test_the_agent_id_is_that_of_the_running_agent(sdk, runner_of):
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
