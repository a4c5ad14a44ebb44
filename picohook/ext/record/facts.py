"""The facts of a record that a replay compares. Two programs that decide the same have the same facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.stages import FIXED
from ...protocol.codec import decode_own, encode
from ...wire import words
from .format import EndLine

if TYPE_CHECKING:
    from ...model.decisions import Outcome
    from ...model.payloads import Payload
    from .format import AnswerLine

Facts = dict[str, Any]
NAMES = ("action", "failed", "reason", "feedback", "result", "notes", "payload")
"""The facts, by name. They do not depend on a decision's form: a payload and a patch with the same result are equal."""


def facts_of_end(end: EndLine, answers: list[AnswerLine], params: dict[str, Any] | None) -> Facts:
    """The outcome of a chain, and which of its hooks failed. `params` are its payload after the hooks; None if unchanged."""
    failed = {answer.hook: answer.failed for answer in answers if answer.failed is not None}
    return _facts(end, end.result, failed, [answer.notes for answer in answers if answer.notes], params)


def facts_of_outcome(outcome: Outcome[Any], before: Payload) -> Facts:
    """The same about a chain that was asked now."""
    trail = outcome.trail
    failed = {entry.hook: entry.failure for entry in trail if entry.failure is not None}
    notes = [entry.notes.wire() for entry in trail if entry.notes is not None]
    params = None if outcome.payload is before else decode_own(encode(outcome.payload.wire()))
    result = None if outcome.result is None else decode_own(encode(outcome.result.wire()))
    return _facts(outcome, result, failed, notes, params)


def _facts(
    end: EndLine | Outcome[Any], result: Any, failed: dict[str, str], notes: list[Any], params: dict[str, Any] | None
) -> Facts:
    found = {
        "action": word_of(end),
        "failed": failed,
        "reason": "" if end.hook in failed else end.reason,  # the text of an error may differ the next time
        "feedback": end.feedback,
        "result": editable(result or {}),
        "notes": notes,
    }
    kept = {name: value for name, value in found.items() if value}
    return kept if params is None else {**kept, "payload": editable(params)}


def word_of(end: EndLine | Outcome[Any]) -> str:
    """The action of an outcome; of approvers, whether they approved."""
    return end.action if end.approved is None else "approved" if end.approved else "denied"


def end_of(answer: AnswerLine, *, approves: bool) -> EndLine:
    """The outcome of a chain with this answer alone."""
    action = answer.action
    if not approves and action in {words.CONTINUE, words.MODIFY}:
        action = words.CONTINUE if answer.params is None else words.MODIFY
    return EndLine(
        type="end",
        at=answer.at,
        chain=answer.chain,
        action=action,
        approved=action != words.DENY if approves else None,
        reason=answer.reason,
        feedback=answer.feedback,
        result=answer.result,
        hook=answer.hook,
    )


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
