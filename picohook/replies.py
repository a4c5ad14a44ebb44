"""From what a hook answered to a `Decision`. Whatever is not a decision that the stage allows raises `ValueError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import wire
from .decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Continue,
    Decision,
    Deny,
    HardAbort,
    Modify,
    Notes,
    Pause,
    Respond,
    Retry,
    Skip,
)
from .text import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .stages import Stage


def read_decision(stage: Stage[Any], answer: Any) -> Decision:
    """What the answer to a request decides. An absent or empty answer is a `continue`, and for an approval a failure."""
    if answer == wire.GO_ON and not stage.approves:
        return CONTINUE  # as nearly always
    if answer is None:
        answer = {}
    if not isinstance(answer, dict):
        raise ValueError(f"the result is {_kind(answer)}, not an object")
    return _read_approval(answer) if stage.approves else _read_interception(stage, answer)


def _read_approval(answer: Mapping[str, Any]) -> Decision:
    action = answer.get("action")
    if action not in (None, "", wire.CONTINUE):  # it may be anything, also what no set can hold
        raise ValueError(f"an approval has no action, and this one has {_shown(action)}")
    approved = answer.get("approved")
    if approved is True:
        return APPROVE
    if approved is False:
        return Deny(reason=_text(answer, "reason", wire.MAX_REASON))
    if "approved" not in answer:
        raise ValueError("the answer has no `approved`")
    raise ValueError(f"`approved` is {_shown(approved)}, and only true is a yes")


def _read_interception(stage: Stage[Any], answer: Mapping[str, Any]) -> Decision:  # noqa: C901, PLR0912 - one arm an action
    action = answer.get("action")
    if action is None or action == "":
        action = wire.CONTINUE
    if not isinstance(action, str) or action not in stage.actions:
        raise ValueError(
            f"the action {_shown(action)} is not one of {stage.name}'s: {', '.join(sorted(stage.actions))}"
        )
    reason = _text(answer, "reason", wire.MAX_REASON)
    notes = _notes(answer)
    changes = _changes(stage, answer)
    patch = _object(answer, "patch")
    match action:
        case wire.CONTINUE | wire.MODIFY:
            if changes or patch is not None:
                return Modify(changes, patch=patch, reason=reason, notes=notes)
            return Continue(reason=reason, notes=notes) if reason or notes else CONTINUE
        case wire.RESPOND:
            result = _object(answer, "result")
            if result is None:
                raise ValueError("`respond` came without a `result`")
            return Respond(result, changes=changes, reason=reason, notes=notes)
        case wire.DENY:
            return Deny(reason=reason, notes=notes)
        case wire.RETRY:
            feedback = _text(answer, "feedback", wire.MAX_NOTE)
            if not feedback and not (stage.fields and changes):
                raise ValueError("`retry` came without `feedback`")
            return Retry(feedback, changes=changes if stage.fields else {}, reason=reason, notes=notes)
        case wire.SKIP:
            return Skip(reason=reason, notes=notes)
        case wire.PAUSE:
            return Pause(reason=reason, notes=notes)
        case wire.ABORT_TURN:
            return AbortTurn(reason=reason, notes=notes)
        case wire.HARD_ABORT:
            return HardAbort(reason=reason, notes=notes)
    raise AssertionError(f"{stage.name} allows {action!r}, and nothing here reads it")


def _changes(stage: Stage[Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer carries of an edited payload."""
    if stage.fields:
        return {name: answer[name] for name in stage.fields if answer.get(name) is not None}
    return _object(answer, stage.carries) or {}


def _notes(answer: Mapping[str, Any]) -> Notes | None:
    injected = answer.get("inject_messages")
    if injected is not None and not (isinstance(injected, list) and all(isinstance(one, dict) for one in injected)):
        raise ValueError("`inject_messages` is not a list of objects")
    system_message = _text(answer, "system_message", wire.MAX_REASON)
    additional_context = _text(answer, "additional_context", wire.MAX_NOTE)
    if not (injected or system_message or additional_context):
        return None
    return Notes(system_message, additional_context, tuple(injected or ()))


def _text(answer: Mapping[str, Any], key: str, limit: int) -> str:
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is {_kind(value)}, not a string")
    return cut(value, limit)


def _object(answer: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = answer.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise ValueError(f"`{key}` is {_kind(value)}, not an object")


_KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _shown(value: object) -> str:
    return cut(repr(value), 80) if isinstance(value, str | int | float) else _kind(value)
