"""For any list of decisions and failures, the chain concludes what ten lines say it should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from picohook.engine.chain import NEVER, Chain
from picohook.engine.seat import Seat
from picohook.hooks.base import Hook
from picohook.model.decisions import APPROVE, CONTINUE, AbortTurn, Deny, HardAbort, Modify, Pause, Respond, Retry
from picohook.model.encoded import Encoded
from picohook.model.payloads import ToolCall
from picohook.model.spec import HookSpec
from picohook.model.stages import APPROVE_TOOL, BEFORE_TOOL

pytestmark = pytest.mark.anyio

FAILURE = ValueError("it broke")


class Step(Hook):
    """Gives one answer."""

    def __init__(self, place: int, answer: Any, on_failure: str) -> None:
        super().__init__(HookSpec(name=f"hook {place}", stages=("before_tool", "approve_tool"), on_failure=on_failure))
        self.answer = answer

    async def handle(self, question: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ANSWERS = st.one_of(
    st.just(CONTINUE),
    st.builds(lambda key, value: Modify({"arguments": {key: value}}), st.sampled_from("ab"), st.integers(0, 1)),
    st.builds(lambda key, value: Modify(patch={"arguments": {key: value}}), st.sampled_from("ab"), st.integers(0, 1)),
    st.sampled_from([
        Modify({"tool": 5}), Deny(reason="no"), Respond({"for_llm": "x"}), Pause(), AbortTurn(), HardAbort(reason="stop"),
        Retry("not allowed here"), APPROVE, None, FAILURE,
    ]),
)  # fmt: skip
STEPS = st.lists(st.tuples(ANSWERS, st.sampled_from(["continue", "deny", "abort"])), max_size=6)


def model(steps, arguments):
    """What before_tool comes to: the action, the arguments, and the actions in the trail."""
    changed, trail = "continue", []
    for answer, on_failure in steps:
        if isinstance(answer, Modify) and "tool" not in answer.changes:
            edited = {**arguments, **answer.patch["arguments"]} if answer.patch else answer.changes["arguments"]
            changed = changed if edited == arguments else "modify"
            arguments, trail = edited, [*trail, "modify"]
        elif isinstance(answer, Deny | Respond | Pause | AbortTurn | HardAbort):
            return answer.action, arguments, [*trail, answer.action]
        elif answer is not CONTINUE and on_failure != "continue":
            failed = {"deny": "deny_tool", "abort": "abort_turn"}[on_failure]
            return failed, arguments, [*trail, failed]
        else:
            trail = [*trail, "continue"]
    return changed, arguments, trail


def seats(steps) -> list[Seat]:
    return [Seat(Step(place, *step), 5.0) for place, step in enumerate(steps)]


@given(STEPS)
async def test_interceptors(steps):
    call = ToolCall(tool="bash", arguments={"a": 0})
    outcome = await Chain(BEFORE_TOOL, Encoded(call), lambda: 0.0, 30.0).run(seats(steps))
    concluded = (outcome.action, outcome.payload.arguments, [entry.action for entry in outcome.trail])
    assert concluded == model(steps, {"a": 0})
    assert outcome.payload.tool == "bash"
    assert call.arguments == {"a": 0}
    assert (outcome.approved, outcome.result is not None) == (None, outcome.action == "respond")


@given(STEPS)
async def test_approvers(steps):
    call = ToolCall(tool="bash")
    outcome = await Chain(APPROVE_TOOL, Encoded(call), lambda: 0.0, NEVER).run(seats(steps))
    assert outcome.approved is all(answer is APPROVE for answer, _ in steps)
    assert outcome.action == ("continue" if outcome.approved else "deny_tool")
    assert outcome.payload is call
    assert len(outcome.trail) == len(steps)
    assert bool(outcome.hook) is not outcome.approved
