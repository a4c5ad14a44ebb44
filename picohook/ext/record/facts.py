"""The facts of a record that a replay compares. Two programs that decide the same have the same facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.stages import FIXED
from ...protocol.codec import decode_own, encode
from ...wire import words

if TYPE_CHECKING:
    from ...model.decisions import Outcome
    from ...model.payloads import Payload
    from .format import AnswerLine, EndLine

FACTS = ("action", "failed", "reason", "feedback", "result", "notes", "payload")
"""The facts, by name."""
FAILED = "failed"
"""The action of a hook that failed, since the action of its `on_failure` is not its own decision."""


def facts_of_answer(answer: AnswerLine, *, approves: bool) -> dict[str, Any]:
    """The facts of a hook's decision. They do not depend on its form: a payload and a patch with the same result are equal."""
    if answer.failed is not None:
        return {"action": FAILED, "failed": answer.failed}
    facts: dict[str, Any] = {"action": _action(answer, approves=approves)}
    if answer.params is not None:
        facts["payload"] = editable(answer.params)
    more = {
        "reason": answer.reason,
        "feedback": answer.feedback,
        "result": editable(answer.result or {}),
        "notes": answer.notes,
    }
    return facts | {name: value for name, value in more.items() if value}


def _action(answer: AnswerLine, *, approves: bool) -> str:
    if approves:
        return "denied" if answer.action == words.DENY else "approved"
    if answer.action in {words.CONTINUE, words.MODIFY}:
        return words.CONTINUE if answer.params is None else words.MODIFY
    return answer.action


def facts_of_end(end: EndLine, answers: list[AnswerLine], params: dict[str, Any] | None) -> dict[str, Any]:
    """The outcome of a chain, and which of its hooks failed. `params` are its payload after the hooks; None if unchanged."""
    failed = {answer.hook: answer.failed for answer in answers if answer.failed is not None}
    return _facts_of_chain(end, end.result, failed, [answer.notes for answer in answers if answer.notes], params)


def facts_of_outcome(outcome: Outcome[Any], before: Payload) -> dict[str, Any]:
    """The same about a chain that was asked now."""
    trail = outcome.trail
    failed = {entry.hook: entry.failure for entry in trail if entry.failure is not None}
    notes = [entry.notes.wire() for entry in trail if entry.notes is not None]
    params = None if outcome.payload is before else decode_own(encode(outcome.payload.wire()))
    result = None if outcome.result is None else decode_own(encode(outcome.result.wire()))
    return _facts_of_chain(outcome, result, failed, notes, params)


def _facts_of_chain(
    end: EndLine | Outcome[Any], result: Any, failed: dict[str, str], notes: list[Any], params: dict[str, Any] | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {"action": {None: end.action, True: "approved", False: "denied"}[end.approved]}
    if params is not None:
        facts["payload"] = editable(params)
    if end.reason and end.hook not in failed:  # the text of an error may differ the next time
        facts["reason"] = end.reason
    more = {"feedback": end.feedback, "result": editable(result or {}), "notes": notes, "failed": failed}
    facts.update({name: value for name, value in more.items() if value})
    return facts


def editable(params: dict[str, Any]) -> dict[str, Any]:
    """The part of a payload that hooks can change. Tracing may change the rest."""
    return {name: value for name, value in params.items() if name not in FIXED}
