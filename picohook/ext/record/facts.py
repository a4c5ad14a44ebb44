"""The facts of a record that a replay compares. Two programs that decide the same have the same facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.stages import FIXED
from ...protocol.codec import decode_own, encode
from ...wire import words
from .format import end_of

if TYPE_CHECKING:
    from ...model.decisions import Outcome
    from ...model.payloads import Payload
    from .format import Line

Facts = dict[str, Any]
NAMES = ("action", "failed", "reason", "feedback", "result", "notes", "payload")
"""The facts, by name. They do not depend on a decision's form: a payload and a patch with the same result are equal."""


def facts_of_end(end: Line, answers: list[Line], params: dict[str, Any] | None) -> Facts:
    """The outcome of a chain, and which of its hooks failed. `params` are its payload after the hooks; None if unchanged."""
    failed = {answer["hook"]: answer["failed"] for answer in answers if "failed" in answer}
    return _facts(end, failed, [answer["notes"] for answer in answers if "notes" in answer], params)


def facts_of_outcome(outcome: Outcome[Any], before: Payload) -> Facts:
    """The same about a chain that was asked now."""
    trail = outcome.trail
    failed = {entry.hook: entry.failure for entry in trail if entry.failure is not None}
    notes = [entry.notes.wire() for entry in trail if entry.notes is not None]
    params = None if outcome.payload is before else decode_own(encode(outcome.payload.wire()))
    end = end_of(outcome)
    if end["result"] is not None:
        end["result"] = decode_own(encode(end["result"]))
    return _facts(end, failed, notes, params)


def _facts(end: Line, failed: dict[str, str], notes: list[Any], params: dict[str, Any] | None) -> Facts:
    found: Facts = {"action": word_of(end)}
    if params is not None:
        found["payload"] = editable(params)
    if failed:
        found["failed"] = failed
    if end.get("reason") and end.get("hook") not in failed:  # the text of an error may differ the next time
        found["reason"] = end["reason"]
    if end.get("feedback"):
        found["feedback"] = end["feedback"]
    if end.get("result") and (result := editable(end["result"])):
        found["result"] = result
    if notes:
        found["notes"] = notes
    return found


def word_of(end: Line) -> str:
    """The action of an outcome; of approvers, whether they approved."""
    approved = end.get("approved")
    return str(end["action"]) if approved is None else "approved" if approved else "denied"


def end_with(answer: Line, *, approves: bool) -> Line:
    """The outcome of a chain with this answer alone."""
    action = answer["action"]
    if approves:
        return {**answer, "approved": action != words.DENY}
    if action in {words.CONTINUE, words.MODIFY}:
        action = words.MODIFY if "params" in answer else words.CONTINUE
    return {**answer, "action": action}


def editable(params: dict[str, Any]) -> dict[str, Any]:
    """The part of a payload that hooks can change. Tracing may change the rest."""
    return {name: value for name, value in params.items() if name not in FIXED}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: numbers exactly, and `true` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other
