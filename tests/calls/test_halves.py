"""The two halves of a call: what hooks decide before it, and what they conclude from its result."""

from __future__ import annotations

import needs
import pytest

from picohook import (
    AbortTurn,
    AbortTurnError,
    Account,
    Approve,
    Deny,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Host,
    Listener,
    LLMRequest,
    Modify,
    Notes,
    Pause,
    PausedError,
    PicohookError,
    Respond,
    Retry,
    RetryLimitError,
    ToolCall,
    ToolResult,
)
from picohook.model.decisions import Continue
from picohook.testing import FakeHook, RecordingHost

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": ["ls"]}, tool_call_id="1")


def host_of(script=None, **settings):
    return RecordingHost([FakeHook("h", script, **settings)])


def kinds(host):
    return [event.kind for event in host.events]


# A tool call.


async def test_the_halves_ask_each_stage_once_and_emit_what_run_tool_emits():
    script = {"before_tool": Modify({"arguments": {"command": ["pwd"]}}), "after_tool": Modify({"for_llm": "/home"})}
    async with host_of({**script, "approve_tool": True}) as host:
        decided = await host.decide(CALL)
        assert (decided.action, decided.result) == ("continue", None)
        assert [outcome.stage for outcome in decided.outcomes] == ["before_tool", "approve_tool"]
        assert decided.call == CALL.model_copy(update={"arguments": {"command": ["pwd"]}})
        result = await host.conclude(decided, "/root")
        halves = [(event.kind, {**event.payload, "Duration": 0}) for event in host.events]
        asked = len(host.outcomes)
        whole = await host.run_tool(CALL, lambda _: "/root")
        assert (whole, [passed.stage for passed in whole.trails]) == (
            result,
            [passed.stage for passed in result.trails],
        )
        assert [(event.kind, {**event.payload, "Duration": 0}) for event in host.events] == halves * 2
    assert result.for_llm == "/home"
    assert asked == 3


@pytest.mark.parametrize(
    ("script", "action", "text", "told"),
    [
        ({"before_tool": Deny("no")}, "deny_tool", "Tool execution denied by hook: no", ["tool_exec_skipped"]),
        (
            {"approve_tool": Deny("no")},
            "deny_tool",
            "Tool execution denied by approval hook: no",
            ["tool_exec_skipped"],
        ),
        ({"before_tool": Respond({"for_llm": "cached"})}, "respond", "cached", ["tool_exec_start", "tool_exec_end"]),
    ],
)
async def test_a_call_that_is_not_to_run_has_its_result_and_cannot_be_concluded(script, action, text, told):
    async with host_of(script, provides=("bash",)) as host:
        decided = await host.decide(CALL)
        assert (decided.action, decided.result.for_llm) == (action, text)
        assert decided.result.trails[0].stage == "before_tool"
        with pytest.raises(PicohookError, match="was not to be made"):
            await host.conclude(decided, "it ran")
    assert kinds(host) == told
    assert host.outcomes_at("after_tool") == []


@pytest.mark.parametrize(
    ("stage", "decision", "error"),
    [
        ("before_tool", AbortTurn, AbortTurnError),
        ("before_tool", HardAbort, HardAbortError),
        ("before_tool", Pause, PausedError),
        ("after_tool", AbortTurn, AbortTurnError),
        ("after_tool", HardAbort, HardAbortError),
    ],
)
async def test_each_half_raises_what_ends_the_turn(stage, decision, error):
    async with host_of({stage: decision("stop")}) as host:
        with pytest.raises(error, match="stop") as raised:
            await host.conclude(await host.decide(CALL), "done")
    assert type(raised.value) is error
    assert kinds(host) == ([] if stage == "before_tool" else ["tool_exec_start", "tool_exec_end"])


async def test_a_call_is_concluded_once():
    async with host_of({"after_tool": None}) as host:
        decided = await host.decide(CALL)
        await host.conclude(decided, "done")
        with pytest.raises(PicohookError, match="concluded already"):
            await host.conclude(decided, "done")
    assert len(host.outcomes_at("after_tool")) == 1


async def test_nothing_that_happens_between_the_halves_changes_what_was_decided():
    given = CALL.deep_copy()
    async with host_of({"approve_tool": True, "after_tool": None}) as host:
        decided = await host.decide(given)
        given.arguments["command"].append("evil")
        decided.call.arguments["command"].append("evil")
        assert decided.call == CALL
        await host.conclude(decided, "done")
    (after,) = host.outcomes_at("after_tool")
    assert after.payload.arguments == CALL.arguments


async def test_a_call_that_changes_behind_the_approvers_back_is_denied():
    class Meddles(Account):
        def concluded(self, outcome):
            if outcome.stage == "approve_tool":
                outcome.payload.arguments["command"].append("evil")

    class Watch(Listener):
        def begin(self, stage, payload):
            return Meddles(stage, payload)

    async with Host([FunctionHook("yes", {"approve_tool": lambda _: True})], listeners=[Watch()]) as host:
        decided = await host.decide(CALL)
    text = "Tool execution denied by approval hook: the call was changed after it was approved"
    assert (decided.action, decided.result.for_llm) == ("deny_tool", text)


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        ({"arguments": {"command": ["rm"]}}, "the tool bash ran with other arguments than hooks have decided on"),
        ({"tool": "sh", "arguments": CALL.arguments}, "the tool sh ran, and hooks have decided on bash"),
    ],
)
async def test_a_result_of_another_call_than_was_decided_is_refused(ran, why):
    async with host_of({"after_tool": None}) as host:
        decided = await host.decide(CALL)
        with pytest.raises(PicohookError, match=why):
            await host.conclude(decided, "done", **ran)
        with pytest.raises(PicohookError, match="concluded already"):
            await host.conclude(decided, "done")
        result = await host.conclude(await host.decide(CALL), "done", tool="bash", arguments=dict(CALL.arguments))
    assert result.for_llm == "done"
    assert kinds(host)[:2] == ["tool_exec_start", "tool_exec_skipped"]
    assert len(host.outcomes_at("after_tool")) == 1


async def test_an_exception_is_the_result_of_a_tool_that_raised_it():
    async with host_of({"after_tool": None}) as host:
        result = await host.conclude(await host.decide(CALL), OSError("the disk is full"))
    assert result == ToolResult(for_llm="OSError: the disk is full", is_error=True)
    assert host.outcomes_at("after_tool")[0].payload.error == "OSError: the disk is full"


async def test_a_framework_says_how_long_the_tool_ran_and_why_it_failed():
    async with host_of({"after_tool": None}) as host:
        ran = {"duration": 5, "error": "a timeout"}
        await host.conclude(await host.decide(CALL), ToolResult(for_llm="late", is_error=True), **ran)
    (after,) = host.outcomes_at("after_tool")
    assert (after.payload.duration, after.payload.error) == (5, "a timeout")


async def test_the_hard_abort_of_a_turn_inside_the_tool_goes_on():
    async with host_of({"before_tool": [None, HardAbort("stop")], "after_tool": None}) as host:
        decided = await host.decide(CALL)
        with pytest.raises(HardAbortError, match="stop") as inner:
            await host.decide(CALL)
        with pytest.raises(HardAbortError, match="stop"):
            await host.conclude(decided, inner.value)
    assert host.outcomes_at("after_tool") == []


@pytest.mark.parametrize("decision", [None, Deny("no"), Respond({"for_llm": "cached"})])
async def test_a_known_decision_holds_for_the_same_call_and_hooks_see_its_new_result(decision):
    async with host_of({"before_tool": decision, "after_tool": None}, provides=("bash",)) as host:
        first = await host.decide(CALL)
        again = await host.decide(CALL, known=first)
        assert (again.action, again.result) == (first.action, first.result)
        for decided in (first, again):
            if decided.result is None:
                result = await host.conclude(decided, "done")
                assert [passed.stage for passed in result.trails] == ["before_tool", "approve_tool", "after_tool"]
    assert len(host.outcomes_at("before_tool")) == 1
    assert len(host.outcomes_at("after_tool")) == (2 if decision is None else 0)


async def test_a_known_decision_does_not_hold_for_another_call():
    async with host_of({"before_tool": [None, Deny("no")]}) as host:
        known = await host.decide(CALL)
        other = await host.decide(CALL.model_copy(update={"arguments": {"command": ["rm"]}}), known=known)
    assert other.action == "deny_tool"


# A model call.

HELLO = {"role": "user", "content": "hello"}
REQUEST = LLMRequest(model="m", messages=[HELLO])


async def test_the_halves_of_a_model_call_are_what_run_llm_is_made_of():
    script = {"before_llm": Modify({"model": "n"}), "after_llm": Modify({"content": "edited"})}
    async with host_of(script) as host:
        decided = await host.decide_llm(REQUEST)
        assert (decided.response, decided.request.model) == (None, "n")
        response = await host.conclude_llm(decided, {"content": "said"})
        halves = [(event.kind, event.payload) for event in host.events]

        async def complete(_):
            return {"content": "said"}

        assert await host.run_llm(REQUEST, complete) == response == decided.response
        assert [(event.kind, event.payload) for event in host.events] == halves * 2
    assert response.response == {"content": "edited"}
    assert [passed.stage for passed in response.trails] == ["before_llm", "after_llm"]


async def test_a_request_that_a_hook_answers_has_its_response_and_cannot_be_concluded():
    async with host_of({"before_llm": Respond({"content": "cached"})}) as host:
        decided = await host.decide_llm(REQUEST)
        assert decided.response.response == {"content": "cached"}
        with pytest.raises(PicohookError, match="was not to be made"):
            await host.conclude_llm(decided, {"content": "said"})
    assert kinds(host) == []


async def test_notes_of_hooks_are_in_the_request():
    notes = Notes(additional_context="Mind.", inject_messages=(HELLO,))
    async with host_of({"before_llm": Continue(notes=notes)}) as host:
        decided = await host.decide_llm(REQUEST)
    assert (decided.request.system_prompt, decided.request.messages) == ("Mind.", [HELLO, HELLO])


async def test_each_round_has_its_request_and_is_concluded_once():
    async with host_of({"before_llm": None, "after_llm": [Retry("shorter"), None]}) as host:
        decided = await host.decide_llm(REQUEST)
        assert await host.conclude_llm(decided, {"content": "long"}) is None
        assert [message["content"] for message in decided.request.messages] == ["hello", "shorter"]
        assert (await host.conclude_llm(decided, {"content": "short"})).response == {"content": "short"}
        with pytest.raises(PicohookError, match="concluded already"):
            await host.conclude_llm(decided, {"content": "short"})
    assert [outcome.stage for outcome in decided.outcomes] == ["before_llm", "after_llm"] * 2


async def test_too_many_rounds_are_an_error_in_both_halves():
    async with RecordingHost([FakeHook("h", {"before_llm": Retry("again")})], retry_limit=1) as host:
        with pytest.raises(RetryLimitError):
            await host.decide_llm(REQUEST)
    async with RecordingHost([FakeHook("h", {"after_llm": Retry("again")})], retry_limit=0) as host:
        with pytest.raises(RetryLimitError):
            await host.conclude_llm(await host.decide_llm(REQUEST), {"content": "said"})


# In other hosts.


@needs.other_rooms
async def test_a_decision_of_a_session_is_concluded_by_the_hooks_of_that_session():
    own = FakeHook("own", {"after_tool": Modify({"for_llm": "seen"})})
    async with RecordingHost() as host, host.session("s", hooks=[own]) as session, session.turn("hello") as turn:
        decided = await turn.decide(CALL)
        assert (await host.conclude(decided, "done")).for_llm == "seen"
    assert decided.call.meta.turn_id == turn.meta.turn_id
    (end,) = [event.payload for event in host.events if event.kind == "turn_end"]
    assert end["ToolExecutions"] == [{"name": "bash", "success": True}]


@needs.other_rooms
async def test_a_turn_decides_on_a_model_call_with_what_hooks_have_added():
    notes = Continue(notes=Notes(additional_context="Mind."))
    async with host_of({"after_tool": notes}) as host, host.session("s") as session, session.turn("hello") as turn:
        await host.conclude(await turn.decide(CALL), "done")
        decided = await turn.decide_llm(REQUEST)
        assert (decided.request.system_prompt, decided.request.meta.iteration) == ("Mind.", 1)
        await host.conclude_llm(decided, {"content": "bye"})
        assert (turn.content, turn.messages[-1]) == ("bye", {"role": "assistant", "content": "bye"})


def test_the_halves_without_await():
    hook = FunctionHook("h", {"after_tool": lambda _: Modify({"for_llm": "seen"}), "after_llm": lambda _: None})
    with Host.blocking([hook]) as host:
        decided = host.decide(CALL)
        assert host.conclude(decided, "done", duration=3).for_llm == "seen"
        assert host.decide(CALL, known=decided).result is None
        request = host.decide_llm(REQUEST)
        assert host.conclude_llm(request, {"content": "bye"}).response == {"content": "bye"}


# Pauses.


async def test_a_pause_takes_the_decision_of_on_pause_and_hooks_before_it_are_not_asked_again():
    asked = []

    def note(name, answer=None):
        return FunctionHook(name, {"before_tool": lambda _: asked.append(name) or answer})

    hooks = [note("a"), note("b", Pause("one")), note("c", Pause("two")), note("d")]
    pauses = []
    async with Host(hooks) as host:
        decided = await host.decide(
            ToolCall(tool="x"), on_pause=lambda outcome: pauses.append(outcome.hook) or Continue()
        )
    assert (decided.action, pauses, asked) == ("continue", ["b", "c"], ["a", "b", "c", "d"])


async def test_a_decision_of_on_pause_can_deny_and_an_error_of_it_is_raised():
    async with Host([FunctionHook("a", {"before_tool": lambda _: Pause()})]) as host:
        decided = await host.decide(ToolCall(tool="x"), on_pause=lambda _: Deny("not today"))
        assert (decided.action, "not today" in decided.result.for_llm) == ("deny_tool", True)
        with pytest.raises(KeyError):
            await host.decide(ToolCall(tool="x"), on_pause=lambda _: {}["none"])
        for wrong in (Pause(), Approve()):
            with pytest.raises(PicohookError, match="answer"):
                await host.decide(ToolCall(tool="x"), on_pause=lambda _, wrong=wrong: wrong)


async def test_a_guard_before_a_pause_is_asked_again_about_a_call_that_was_changed_since():
    seen = []
    hooks = [
        FunctionHook("a", {"before_tool": lambda call: seen.append(call.arguments)}, guard=True),
        FunctionHook("b", {"before_tool": lambda _: Pause()}),
        FunctionHook("c", {"before_tool": lambda _: Modify({"arguments": {"n": 1}})}),
    ]
    async with Host(hooks) as host:
        decided = await host.decide(ToolCall(tool="x"), on_pause=lambda _: Continue())
    assert decided.call.arguments == {"n": 1}
    assert seen[-1] == {"n": 1}
