"""A hook's pause in the form of its framework, and the run that resumes it, from what another process would have."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import preloaded
import pytest

from picohook import (
    AbortTurn,
    AbortTurnError,
    Deny,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Modify,
    Pause,
    PausedError,
    PicohookError,
)

from .pausing import (
    APPROVED,
    CALL,
    Deployment,
    adk_runner,
    confirmations,
    confirmed,
    continued,
    deferred,
    interrupted,
    interruption,
    langchain_agent,
    openai_agent,
    pause_all,
    pydantic_agent,
    resumed,
    run_again,
    user_message,
)

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]


def once(answer):
    """Pauses first, and then answers so."""
    answers = [Pause("may it?"), answer]
    return lambda _: answers.pop(0)


# Pydantic AI.


async def test_pydantic_ai_defers_a_paused_call_which_another_agent_runs_once_it_is_approved():
    place = Deployment()
    output, messages = await deferred(place)
    assert [call.tool_call_id for call in output.approvals] == ["c1"]
    assert output.metadata["c1"] == {
        "hook": "b-person", "reason": "may it?", "tool": "remove", "arguments": {"path": "b"},
    }  # fmt: skip
    assert place.ran == []
    assert await resumed(place, messages, True) == "removed b"
    assert place.ran == ["b"]


async def test_pydantic_ai_does_not_run_a_call_that_the_person_denies():
    place = Deployment()
    _, messages = await deferred(place)
    assert "denied" in await resumed(place, messages, False)
    assert place.ran == []


async def test_in_pydantic_ai_a_hook_that_denies_after_the_pause_is_heard():
    place = Deployment(once(Deny("no longer")))
    _, messages = await deferred(place)
    assert "no longer" in await resumed(place, messages, True)
    assert place.ran == []


async def test_in_pydantic_ai_a_hook_that_aborts_after_the_pause_ends_the_run():
    place = Deployment(once(AbortTurn("no longer")))
    _, messages = await deferred(place)
    with pytest.raises(AbortTurnError, match="no longer"):
        await resumed(place, messages, True)
    assert place.ran == []


async def test_pydantic_ai_without_deferred_output_raises_the_pause():
    place = Deployment()
    async with place.host() as host:
        with pytest.raises(PausedError, match="may it"):
            await pydantic_agent(place, host, output=str).run("remove it")
    assert place.ran == []


# LangChain.


async def interrupted_and_resumed(place, answer):
    """The interrupt, and what the model is told after the answer, which another host and agent take from the checkpoints."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    asked = await interrupted(place, saver)
    assert place.ran == []
    return asked, await continued(place, saver, answer)


async def test_langchain_interrupts_for_a_pause_and_continues_with_another_agent():
    place = Deployment()
    asked, told = await interrupted_and_resumed(place, APPROVED)
    assert asked == {
        "action_requests": [{"name": "remove", "args": {"path": "b"}, "description": "may it?"}],
        "review_configs": [{"action_name": "remove", "allowed_decisions": ["approve", "reject"]}],
    }
    assert (told, place.ran) == ("removed b", ["b"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"decisions": [{"type": "reject", "message": "keep it"}]}, "keep it"),
        ({"decisions": [{"type": "reject"}]}, "a person rejected the call"),
        ({"decisions": [{"type": "approve"}, {"type": "approve"}]}, "was neither"),
        ({"decisions": []}, "was neither"),
        ({"decisions": ["approve"]}, "was neither"),
        (True, "was neither"),
        ("approve", "was neither"),
    ],
)
async def test_in_langchain_any_other_answer_is_a_denial(answer, said):
    place = Deployment()
    _, told = await interrupted_and_resumed(place, answer)
    assert said in told
    assert place.ran == []


async def test_in_langchain_a_hook_that_denies_after_the_pause_is_heard():
    place = Deployment(once(Deny("no longer")))
    _, told = await interrupted_and_resumed(place, APPROVED)
    assert "no longer" in told
    assert place.ran == []


# OpenAI Agents SDK.


def approve(state, one):
    state.approve(one)


async def test_openai_agents_interrupts_for_a_pause_and_runs_the_call_once_it_is_approved():
    place = Deployment()
    pauses, state = await interruption(place)
    assert {
        identity: (one.hook, one.reason, one.payload.tool, one.payload.arguments) for identity, one in pauses.items()
    } == {"c1": ("b-person", "may it?", "remove", {"path": "b"})}
    assert place.ran == []
    assert await run_again(place, state, approve) == "removed b"
    assert place.ran == ["b"]


async def test_openai_agents_does_not_run_a_call_that_the_person_rejects():
    place = Deployment()
    _, state = await interruption(place)
    told = await run_again(place, state, lambda state, one: state.reject(one, rejection_message="keep it"))
    assert (told, place.ran) == ("keep it", [])


async def test_in_openai_agents_a_call_without_an_answer_still_waits():
    place = Deployment()
    _, state = await interruption(place)
    await run_again(place, state, lambda *_: None)
    assert place.ran == []


async def test_in_openai_agents_a_hook_that_denies_after_the_pause_is_heard():
    place = Deployment(once(Deny("no longer")))
    _, state = await interruption(place)
    assert "no longer" in await run_again(place, state, approve)
    assert place.ran == []


async def test_in_openai_agents_a_hook_that_aborts_after_the_pause_ends_the_run():
    place = Deployment(once(AbortTurn("no longer")))
    _, state = await interruption(place)
    with pytest.raises(AbortTurnError, match="no longer"):
        await run_again(place, state, approve)
    assert place.ran == []


async def test_in_openai_agents_one_approval_is_for_one_hook():
    place = Deployment(more=[FunctionHook("c-other", {"before_tool": lambda _: Pause("and may it?")})])
    _, state = await interruption(place)
    with pytest.raises(PausedError, match="and may it"):
        await run_again(place, state, approve)
    assert place.ran == []


async def test_in_openai_agents_an_approval_for_good_is_for_no_later_pause():
    place = Deployment()
    _, state = await interruption(place)
    later = [[("c2", "remove", {"path": "a"})], "done"]
    with pytest.raises(PausedError, match="may it"):
        await run_again(place, state, lambda state, one: state.approve(one, always_approve=True), script=later)
    assert place.ran == ["b"]


async def test_in_openai_agents_an_approval_that_the_tool_itself_asks_for_is_for_no_hook():
    place = Deployment()
    pauses, state = await interruption(place, needs_approval=True)
    assert pauses == {}
    with pytest.raises(PausedError, match="may it"):
        await run_again(place, state, approve, needs_approval=True)
    assert place.ran == []


async def test_openai_agents_interrupts_one_call_of_a_response_and_makes_the_others_once():
    asked = []

    def pausing(call):
        asked.append(call.tool_call_id)
        return Pause("may it?") if call.tool_call_id == "c1" else None

    place = Deployment(pausing)
    both = [[("c1", "remove", {"path": "a"}), ("c2", "remove", {"path": "c"})], "done"]
    _, state = await interruption(place, script=both)
    assert (sorted(asked), place.ran) == (["c1", "c2"], ["b"])
    await run_again(place, state, approve)
    assert (sorted(asked), place.ran) == (["c1", "c1", "c2"], ["b", "b"])


async def test_openai_agents_asks_hooks_once_about_a_call_that_is_not_paused():
    asked, started = [], []
    listening = FunctionHook("z-events", {}, on_event=lambda event: started.append(event.kind))
    place = Deployment(lambda call: asked.append(call.tool_call_id), more=[listening])
    from picohook.integrations.openai_agents import PicohookRunner

    async with place.host() as host:
        agent = openai_agent(place, host, [[("c1", "remove", {"path": "a"})], "done"])
        assert (await PicohookRunner(host, interruptions=True).run(agent, "remove it")).final_output == "done"
    assert (asked, place.ran) == (["c1"], ["b"])
    assert [kind for kind in started if kind.startswith("tool")] == ["tool_exec_start", "tool_exec_end"]


@pytest.mark.parametrize("end", [AbortTurn("stop"), HardAbort("stop")])
async def test_in_openai_agents_a_hook_that_aborts_before_the_call_ends_the_run(end):
    from picohook.integrations.openai_agents import PicohookRunner

    place = Deployment(lambda _: end)
    async with place.host() as host:
        agent = openai_agent(place, host, [[("c1", "remove", {"path": "a"})], "done"])
        with pytest.raises((AbortTurnError, HardAbortError), match="stop"):
            await PicohookRunner(host, interruptions=True).run(agent, "remove it")
    assert place.ran == []


async def test_openai_agents_raises_the_pause_by_default():
    from picohook.integrations.openai_agents import PicohookRunner

    place = Deployment()
    async with place.host() as host:
        with pytest.raises(PausedError, match="may it"):
            await PicohookRunner(host).run(openai_agent(place, host, [[("c1", "remove", {"path": "a"})]]), "remove it")
    assert place.ran == []


@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_in_openai_agents_an_agent_inside_a_tool_is_interrupted_and_after_tool_sees_only_its_result(answer):
    from picohook.integrations.openai_agents import PicohookRunner

    seen = []
    place = Deployment(
        lambda call: Pause("may it?") if call.tool == "remove" else None,
        more=[
            FunctionHook(
                "z-see", {"after_tool": lambda returned: seen.append((returned.tool, returned.result.for_llm))}
            )
        ],
    )

    def agent(host, script, inner_script):
        inner = openai_agent(place, host, inner_script)
        tool = inner.as_tool("ask", "Asks.", needs_approval=False)
        outer = openai_agent(place, host, script)
        return outer.clone(tools=[tool])

    async with place.host() as host:
        runner = PicohookRunner(host, interruptions=True)
        ask = [[("o1", "ask", {"input": "remove it", "path": "b"})], "fine"]
        result = await runner.run(agent(host, ask, [[("c1", "remove", {"path": "a"})], "done"]), "go")
        assert [*runner.pauses(result)] == ["c1"]
        assert (seen, place.ran) == ([], [])
        state = result.to_state()
        (waiting,) = result.interruptions
        getattr(state, answer)(waiting)
        result = await runner.run(state._current_agent, state)
    assert result.final_output == "fine"
    assert place.ran == (["b"] if answer == "approve" else [])
    assert [tool for tool, _ in seen] == (["remove", "ask"] if answer == "approve" else ["ask"])


# Google ADK.


@pytest.fixture
def sessions():
    """Sessions of Google ADK in memory."""
    from google.adk.sessions import InMemorySessionService

    return InMemorySessionService()


@pytest.mark.parametrize(("answer", "told"), [(True, "removed b"), (False, "A person rejected this call.")])
async def test_google_adk_asks_for_a_confirmation_of_a_paused_call_and_runs_it_only_then(sessions, answer, told):
    place = Deployment()
    (asked,) = await confirmations(place, sessions)
    assert asked.args["toolConfirmation"] == {
        "hint": "may it?",
        "confirmed": False,
        "payload": {
            "picohook": {"hook": "b-person", "reason": "may it?", "tool": "remove", "arguments": {"path": "b"}}
        },
    }
    assert place.ran == []
    assert await confirmed(place, sessions, asked.id, answer) == told
    assert place.ran == (["b"] if answer else [])


async def test_google_adk_makes_the_other_calls_of_the_response_once_while_one_waits(sessions):
    place = Deployment(lambda call: Pause("may it?") if call.tool_call_id == "c1" else None)
    script = [[("c1", "remove", {"path": "a"}), ("c2", "remove", {"path": "c"})]]
    (asked,) = await confirmations(place, sessions, script=script)
    assert place.ran == ["b"]
    assert await confirmed(place, sessions, asked.id, True) == "removed b"
    assert place.ran == ["b", "b"]


async def test_in_google_adk_a_denial_after_the_pause_counts(sessions):
    place = Deployment(once(Deny("no longer")))
    (asked,) = await confirmations(place, sessions)
    assert "no longer" in await confirmed(place, sessions, asked.id, True)
    assert place.ran == []


@pytest.mark.parametrize("other", ["another hook", "other arguments"])
async def test_in_google_adk_a_confirmation_is_for_one_hook_and_the_call_that_the_person_saw(sessions, other):
    place = Deployment()
    (asked,) = await confirmations(place, sessions)
    if other == "another hook":
        place.more = [FunctionHook("c-other", {"before_tool": lambda _: Pause("and may it?")})]
    else:
        place.edit = lambda _: Modify({"arguments": {"path": "c"}})
    with pytest.raises(PausedError, match="may it"):
        await confirmed(place, sessions, asked.id, True)
    assert place.ran == []


async def test_in_google_adk_a_confirmation_that_the_tool_itself_asks_for_is_for_no_hook(sessions):
    from google.adk.tools.function_tool import FunctionTool

    place = Deployment()
    tools = [FunctionTool(place.remove, require_confirmation=True)]
    (asked,) = await confirmations(place, sessions, tools=tools)
    assert "payload" not in asked.args["toolConfirmation"]
    with pytest.raises(PausedError, match="may it"):
        await confirmed(place, sessions, asked.id, True, tools=tools)
    assert place.ran == []


async def test_in_google_adk_the_confirmation_of_a_pause_is_not_one_that_a_tool_asks_for(sessions):
    from google.adk.tools.tool_context import ToolContext  # noqa: TC002 - ADK reads the annotation

    place = Deployment()

    def remove(path: str, tool_context: ToolContext) -> str:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="the tool asks, too")
            return "not yet"
        return place.remove(path)

    (asked,) = await confirmations(place, sessions, tools=[remove])
    assert await confirmed(place, sessions, asked.id, True, tools=[remove]) == "not yet"
    assert place.ran == []


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # ADK's own use of it
async def test_in_google_adk_a_pause_inside_an_agent_tool_ends_the_run_since_adk_cannot_resume_it(sessions):
    from google.adk.agents import LlmAgent
    from google.adk.tools.agent_tool import AgentTool

    place = Deployment(lambda call: Pause("may it?") if call.tool == "remove" else None)
    script = [[("o1", "ask", {"request": "remove it"})], *CALL]
    await sessions.create_session(app_name="test", user_id="u", session_id="s")
    async with adk_runner(place, sessions, script) as (runner, _):
        runner.agent.name = "ask"
        inner = runner.agent
        runner.agent = LlmAgent(name="main", model=inner.model, tools=[AgentTool(inner)])
        with pytest.raises(PausedError, match="may it"):
            async for _ in runner.run_async(user_id="u", session_id="s", new_message=user_message("go")):
                pass
    assert place.ran == []


# Another process.


async def test_every_framework_resumes_a_paused_run_in_another_process(tmp_path):
    await pause_all(tmp_path)
    command = [preloaded.program("python", "frameworks"), "-m", "tests.integrations.pausing", str(tmp_path)]
    done = await anyio.run_process(command, cwd=Path(__file__).parents[2], stderr=None)
    assert json.loads(done.stdout) == ["removed b"] * 4


# Without await.


async def test_a_synchronous_run_is_refused_with_the_line_to_write(sessions):
    import agents

    from picohook.integrations.openai_agents import PicohookRunner

    place = Deployment()
    async with place.host() as host:
        with pytest.raises(PicohookError, match=r"write `await agent.run"):
            pydantic_agent(place, host).run_sync("remove it")
        with pytest.raises(PicohookError, match=r"write `await agent.ainvoke"):
            langchain_agent(place, host, None, 0).invoke({"messages": [("user", "remove it")]})
        with pytest.raises(PicohookError, match=r"write `await runner.run"):
            PicohookRunner(host).run_sync(agents.Agent(name="main"), "remove it")
    await sessions.create_session(app_name="test", user_id="u", session_id="s")
    async with adk_runner(place, sessions, CALL) as (runner, _):
        run = partial(runner.run, user_id="u", session_id="s", new_message=user_message("remove it"))
        with pytest.raises(RuntimeError, match=r"write `async for event in runner.run_async"):
            await anyio.to_thread.run_sync(lambda: [*run()])
    assert place.ran == []
