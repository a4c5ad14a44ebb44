"""The answer of a hook on the wire, made from the outcome of asking it alone. `replies.read_decision` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...model.decisions import Outcome
    from ...model.payloads import Payload
    from ...model.stages import Stage

EDIT_REFUSED = "edit_refused"
"""The key of a worker's answer that left out an edit."""


def answer_of(stage: Stage[Any], before: Payload, outcome: Outcome[Any]) -> dict[str, Any]:
    """Returns the answer with the same effect as this outcome of one hook, which did not fail. `before` is the question.

    If an edit was refused, the reason says so too, for the trail of the host that asked, and a member lets that host count it.
    """
    (entry,) = outcome.trail
    if stage.approves:
        answer: dict[str, Any] = {"approved": outcome.approved is True}
        more = {"reason": outcome.reason, "grant": entry.grant}
        return answer | {name: value for name, value in more.items() if value}
    answer = {"action": outcome.action}
    reasons = filter(None, (outcome.reason or entry.reason, entry.error))
    if reason := "; ".join(reasons):
        answer["reason"] = reason
    if entry.error is not None:
        answer[EDIT_REFUSED] = True
    if outcome.feedback:
        answer["feedback"] = outcome.feedback
    if outcome.payload is not before:
        answer |= _edit(stage, before, outcome.payload)
    if outcome.result is not None:
        answer["result"] = outcome.result.wire()
    if entry.notes is not None:
        answer |= entry.notes.wire()
    return answer


def _edit(stage: Stage[Any], before: Payload, after: Payload) -> dict[str, Any]:
    """The fields of an answer that turn one payload into the other."""
    old, new = before.wire(), after.wire()
    changed = {name: new.get(name) for name in stage.editable if new.get(name) != old.get(name)}
    if stage.part:
        return {stage.carries: changed[stage.part]} if changed else {}
    return {stage.carries: changed} if stage.carries else changed
