"""The facts of a record that a replay compares. Two programs that decide the same have the same facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.stages import FIXED
from ...wire import words

if TYPE_CHECKING:
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


def facts_of_end(end: EndLine, answers: list[AnswerLine], params: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a chain, and which of its hooks failed. `params` are its payload after the hooks."""
    verdict = {None: end.action, True: "approved", False: "denied"}[end.approved]
    facts: dict[str, Any] = {"action": verdict, "payload": editable(params)}
    failed = {answer.hook: answer.failed for answer in answers if answer.failed is not None}
    more = {
        # The reason of a hook that failed is the text of its error, which may differ the next time.
        "reason": "" if end.hook in failed else end.reason,
        "feedback": end.feedback,
        "result": editable(end.result or {}),
        "notes": [answer.notes for answer in answers if answer.notes],
        "failed": failed,
    }
    return facts | {name: value for name, value in more.items() if value}


def editable(params: dict[str, Any]) -> dict[str, Any]:
    """The part of a payload that hooks can change. Tracing may change the rest."""
    return {name: value for name, value in params.items() if name not in FIXED}
