"""Reads a hook's answer as a `Decision`. An answer that the stage does not allow raises `ReplyError`."""

from collections.abc import Mapping
from typing import Any

from ..wire import words
from ..wire.answer_fields import json_type, understand
from ..wire.answer_form import fold_case, lower
from ..wire.did_you_mean import action_meant
from ..wire.text import cut
from .decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Approve,
    Continue,
    Decision,
    Deny,
    HardAbort,
    Modify,
    Pause,
    Plain,
    Respond,
    Retry,
    Skip,
)
from .stages import Stage
from .trail import Notes


class ReplyError(ValueError):
    """An answer is not a decision that the stage allows."""

    def __init__(self, message: str, answer: Any) -> None:
        super().__init__(message)
        self.answer = answer
        """The answer, unchanged."""


def read_decision(stage: Stage[Any], answer: Any) -> Decision:
    """The decision in an answer. An absent or empty answer continues; from an approver it is an error.

    Raises `ReplyError`, a `ValueError`, if the answer is not a decision that the stage allows.
    """
    if answer == words.CONTINUE_RESULT and not stage.approves:
        return CONTINUE  # as nearly always
    if type(answer) is dict and not stage.approves and (short := _read_short(stage, answer)) is not None:
        return short
    try:
        if not isinstance(answer, dict | None):
            raise ValueError(f"the result is {json_type(answer)}, not an object")  # all are answered alike
        return _read_approval(answer or {}) if stage.approves else _read_interception(stage, answer or {})
    except ValueError as error:
        raise ReplyError(str(error), answer) from None


def _read_short(stage: Stage[Any], answer: dict[str, Any]) -> Decision | None:
    """The decision of an answer that is an action and a reason, or a `modify` of known fields; None for any other."""
    action, reason = answer.get("action"), answer.get("reason", "")
    if type(action) is not str or type(reason) is not str:
        return None
    read = 1 + ("reason" in answer)
    reason = cut(reason, words.MAX_REASON)
    if len(answer) == read:
        return plain_decision(stage, action, reason)
    if action != words.MODIFY or len(answer) != read + 1 or not stage.carries or stage.part:
        return None
    edit = answer.get(stage.carries)
    if type(edit) is not dict or not edit or not edit.keys() <= stage.editable:
        return None
    return Modify(edit, reason=reason)


def plain_decision(stage: Stage[Any], action: str, reason: str) -> Decision | None:
    """The decision of an interceptor whose answer is only an action and a reason; None if `read_decision` has to read it.

    The reason is not too long.
    """
    kind = _PLAIN_KINDS.get(action)
    if kind is None or action not in stage.actions or not (reason or kind is not Continue):
        return None
    return kind(reason=reason)


_OF_APPROVALS = frozenset({"approved", "action", "grant", "reason", "severity"})
MAX_SEVERITY = 32
"""The most bytes of a severity."""


def _denial(answer: Mapping[str, Any], notes: Notes | None = None) -> Deny:
    severity = text_in(answer, "severity", MAX_SEVERITY)
    return Deny(text_in(answer, "reason"), severity=severity, notes=notes)


def _read_approval(answer: dict[str, Any]) -> Decision:
    other = next((name for name in answer if name != "approved" and lower(name) == "approved"), None)
    answer = fold_case(answer, _OF_APPROVALS)
    action = answer.get("action")
    if action not in (None, "", words.CONTINUE):  # it may be unhashable
        raise ValueError(f"an approval has no action, and this one has {shown(action)}")
    approved = answer.get("approved")
    if approved is False:
        return _denial(answer)
    if other is not None:
        raise ValueError(f"the answer has no `approved`, and `{other}` is not a yes")
    if approved is True:
        grant = _object(answer, "grant")
        return APPROVE if grant is None else Approve(grant=grant)
    if "approved" not in answer:
        raise ValueError("the answer has no `approved`")
    raise ValueError(f"`approved` is {shown(approved)}, and only true is a yes")


def _read_interception(stage: Stage[Any], answer: dict[str, Any]) -> Decision:
    answer = understand(stage.form, answer)
    action = answer.get("action")
    if action is None or action == "":
        action = words.CONTINUE
    if not isinstance(action, str) or action not in stage.actions:
        meant = action_meant(stage.actions, action)
        raise ValueError(
            f"the action {shown(action)} is not one of {stage.name}'s: "
            + (f"did you mean `{meant}`?" if meant else ", ".join(sorted(stage.actions)))
        )
    reason = text_in(answer, "reason")
    notes = _notes(answer)
    match action:
        case words.CONTINUE | words.MODIFY:
            return _read_edit(stage, answer, action, reason, notes)
        case words.RESPOND:
            result = _object(answer, "result")
            if result is None:
                raise ValueError("`respond` came without a `result`")
            changes = _set(_changes(stage, answer))
            return Respond(result, changes=changes if stage.form.known(changes) else {}, reason=reason, notes=notes)
        case words.RETRY:
            feedback = text_in(answer, "feedback", words.MAX_NOTE)
            changes = _changes(stage, answer) if stage.fields else {}
            if not feedback and not changes:
                raise ValueError("`retry` came without `feedback`")
            return Retry(feedback, changes=changes, reason=reason, notes=notes)
        case words.DENY:
            return _denial(answer, notes)
    return _REFUSES[action](reason, notes=notes)


_REFUSES: dict[str, type[Deny | Skip | Pause | AbortTurn | HardAbort]] = {
    kind.action: kind for kind in (Deny, Skip, Pause, AbortTurn, HardAbort)
}
_PLAIN_KINDS: dict[str, type[Plain]] = {
    words.CONTINUE: Continue,
    **_REFUSES,
}


def _read_edit(stage: Stage[Any], answer: Mapping[str, Any], action: str, reason: str, notes: Notes | None) -> Decision:
    """The decision of a `modify`, or of a `continue` that carries a payload."""
    changes, patch = _changes(stage, answer), _object(answer, "patch")
    if patch is not None:
        patch = stage.form.patch(answer)
    if action != words.MODIFY:
        changes = _set(changes)
        if not stage.form.known(changes):
            changes = {}
        if patch is not None and not stage.form.known(patch):
            patch = None
    if changes or patch is not None:
        return Modify(changes, patch=patch, reason=reason, notes=notes)
    return Continue(reason=reason, notes=notes) if reason or notes else CONTINUE


_NEVER_EMPTY = frozenset({"tool", "model", "prompt"})


def _set(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes without null, and without the empty texts that Go writes for fields that were never set."""
    return {name: value for name, value in changes.items() if value is not None and (value or name not in _NEVER_EMPTY)}


def _changes(stage: Stage[Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The edited fields in an answer."""
    if stage.carries:
        _object(answer, stage.carries)
    return stage.form.carried(answer) or {}


def _notes(answer: Mapping[str, Any]) -> Notes | None:
    injected = objects_in(answer, "inject_messages")
    system_message = text_in(answer, "system_message")
    additional_context = text_in(answer, "additional_context", words.MAX_NOTE)
    if not (injected or system_message or additional_context):
        return None
    return Notes(system_message, additional_context, tuple(injected))


def objects_in(answer: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """A field of an answer with a list of objects; empty if it is absent. Raises `ValueError` if it is anything else."""
    value = answer.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        raise ValueError(f"`{key}` is not a list of objects")
    return value or []


def text_in(answer: Mapping[str, Any], key: str, limit: int | None = words.MAX_REASON) -> str:
    """A text field of an answer, cut to `limit` bytes; empty if it is absent. Raises `ValueError` if it is not a text."""
    value: str = _field(answer, key, str, "a string") or ""
    return value if limit is None else cut(value, limit)


def _object(answer: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = _field(answer, key, dict, "an object")
    return found


def _field(answer: Mapping[str, Any], key: str, kind: type, what: str) -> Any:
    value = answer.get(key)
    if value is None or isinstance(value, kind):
        return value
    raise ValueError(f"`{key}` is {json_type(value)}, not {what}")


def shown(value: object) -> str:
    """A value of an answer, short enough for a message: for a list or an object only its type."""
    if isinstance(value, str):
        value = value[:80]
    return cut(repr(value), 80) if isinstance(value, str | int | float) else json_type(value)
