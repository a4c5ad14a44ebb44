"""Decides the effect of a hook's failure: the chain continues, ends, or the call is denied. No other module decides it."""

from typing import Any

from pydantic import ValidationError

from ..errors import HookError, HookReplyError, PicohookError
from ..wire import words
from ..wire.answer_fields import json_type
from ..wire.text import cut, escape, explain
from .decisions import CONTINUE, AbortTurn, Decision, Deny
from .spec import OnFailure
from .stages import Stage


def on_failure(stage: Stage[Any], hook: str, rule: OnFailure, cause: str) -> Decision:
    """The decision in place of a failed hook's own.

    An approver's failure is a denial, whatever its settings say: a failure is never a yes. An interceptor's failure continues,
    denies or ends the turn, as its `on_failure` says. At a stage that cannot deny, "deny" ends the turn.
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
    """The name under which metrics count a failure."""
    if isinstance(error, HookError):
        return error.failure_kind
    return HookReplyError.failure_kind if isinstance(error, ValueError) else HookError.failure_kind


def describe(error: Exception) -> str:
    """The cause of a failure in one line. An exception from other code than picohook's is shown with its type and its place."""
    if not isinstance(error, PicohookError | ValueError):
        return explain(error)
    try:
        text = _misfit(error) if isinstance(error, ValidationError) else str(error).strip().partition("\n")[0]
    except Exception:  # a hook's own exception class may fail, too
        text = ""
    return escape(cut(text or type(error).__name__, words.MAX_REASON))


def _misfit(error: ValidationError) -> str:
    """A message with the wrong field of an edited payload, and its type. It never has the value: payloads are not logged."""
    wrong = error.errors(include_url=False)
    first = wrong[0]
    field = escape(cut(".".join(map(str, first["loc"])), 80))
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
"""JSON's words for the types of values, by pydantic's error types."""
