"""What a failure counts as. Decided here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import (
    HandshakeError,
    HookCrashedError,
    HookRefusedError,
    HookReplyError,
    HookTimeoutError,
    PicohookError,
)
from ..wire import words
from ..wire.answer_fields import json_type
from ..wire.text import cut, escape, explain
from .decisions import CONTINUE, AbortTurn, Decision, Deny
from .spec import OnFailure

if TYPE_CHECKING:
    from .stages import Stage


def on_failure(stage: Stage[Any], hook: str, rule: OnFailure, cause: str) -> Decision:
    """The decision that stands in for a hook that failed.

    A failed approver says no, whatever it is configured to do: no failure is ever a yes. A failed interceptor changes
    nothing, denies, or ends the turn; denying where nothing can be denied ends the turn.
    """
    reason = f"hook {hook} failed: {cause}"
    if stage.approves:
        return Deny(reason=reason)
    if rule is OnFailure.CONTINUE:
        return CONTINUE
    if rule is OnFailure.DENY and words.DENY in stage.actions:
        return Deny(reason=reason)
    return AbortTurn(reason=reason)


def cause(error: Exception) -> str:
    """The kind of a failure, as metrics count it."""
    for kind, name in _CAUSES:
        if isinstance(error, kind):
            return name
    return "error"


_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (HookTimeoutError, "timeout"),
    (HookCrashedError, "crashed"),
    (HookRefusedError, "refused"),
    (HookReplyError, "reply"),
    (HandshakeError, "handshake"),
    (ValueError, "reply"),
)


def describe(error: Exception) -> str:
    """The cause of a failure, fit to be shown. An exception that is not the host's own comes with its type and its place."""
    if not isinstance(error, PicohookError | ValueError):
        return explain(error)
    try:
        text = _misfit(error) if isinstance(error, ValidationError) else str(error).strip().partition("\n")[0]
    except Exception:  # noqa: BLE001 - an exception class of a hook's own, and no better than the hook
        text = ""
    return escape(cut(text or type(error).__name__, words.MAX_REASON))


def _misfit(error: ValidationError) -> str:
    """Which field of an edited payload does not fit, and what it has to be. Its value is not shown: payloads are not logged."""
    wrong = error.errors(include_url=False)
    first = wrong[0]
    field = escape(".".join(map(str, first["loc"])))
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    expected = JSON_WORDS.get(first["type"])
    if expected is None:
        return f"`{field}`: {first['msg']}{more}"
    return f"`{field}` must be {expected}, not {json_type(first['input'])}{more}"


JSON_WORDS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
"""What kinds of value are called in JSON, by pydantic's errors."""
