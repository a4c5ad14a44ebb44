"""Applies a hook's decision: checks that the stage allows it, and edits the payload."""

from typing import Any, TypeVar, get_args

from ..errors import HookReplyError
from ..hooks.base import Hook
from ..model.apply_edit import apply_edit, restrict
from ..model.conversation import text_of
from ..model.decisions import Approve, Decision, Deny, Modify, Respond, Retry
from ..model.encoded import Encoded
from ..model.payloads import LLMResponse, Payload, deep_copy
from ..model.spec import RespondRule
from ..model.stages import Stage

P = TypeVar("P", bound=Payload)

_EDITS = (Modify, Respond, Retry)
"""The decisions that can change the payload."""
_OF_APPROVERS = (Approve, Deny)
_OF_INTERCEPTORS = tuple(kind for kind in get_args(Decision) if kind is not Approve)


def apply(
    stage: Stage[P],
    hook: Hook,
    encoded: Encoded[P],
    decision: Decision,
    final: bool,  # noqa: FBT001 - by position: it is called for most questions
) -> tuple[Decision, Encoded[P], Any, str | None]:
    """Returns the decision, the payload after it, the decision's result, and a note of refused edits.

    With `final`, the payload may no longer be changed. Raises `HookReplyError` or `ValueError` for a wrong decision.
    """
    if hook.keeps_decisions:
        decision = deep_copy(decision)
    allowed = isinstance(decision, _OF_APPROVERS if stage.approves else _OF_INTERCEPTORS)
    if not allowed or not (stage.approves or decision.action in stage.actions):
        raise HookReplyError(f"{type(decision).__name__} is not a valid answer at {stage.name}")
    if isinstance(decision, _EDITS):
        return _apply_edit(stage, hook, encoded, decision, final)
    if isinstance(decision, Deny) and decision.result is not None and stage.result is not None:
        return decision, encoded, stage.result(encoded.payload, decision.result), None
    return decision, encoded, None, None


def _apply_edit(
    stage: Stage[P],
    hook: Hook,
    encoded: Encoded[P],
    decision: Modify | Respond | Retry,
    final: bool,  # noqa: FBT001 - likewise
) -> tuple[Decision, Encoded[P], Any, str | None]:
    if isinstance(decision, Respond) and hook.spec.respond is RespondRule.FORBID:
        raise HookReplyError("it answered by itself, and its `respond` is forbid")
    payload = encoded.payload
    patch = decision.patch if isinstance(decision, Modify) else None
    edited, refused = restrict(payload, apply_edit(stage, payload, decision.changes, patch), hook.spec.may_edit)
    if edited is not payload:
        if final:
            raise HookReplyError("a guard that is asked again may no longer change the call")
        encoded = Encoded(edited)
        if hook.in_process:
            encoded.params()  # a function's edit may have no JSON form: the hook failed then
    _require_unseen(payload, edited, decision)
    if isinstance(decision, Retry) and not decision.feedback and edited is payload:
        raise HookReplyError("it asked for another round without feedback and without a change")
    result = None
    if isinstance(decision, Respond):
        assert stage.result is not None
        result = stage.result(edited, decision.result)
    return decision, encoded, result, f"it may not edit {', '.join(refused)}: left as it was" if refused else None


def _require_unseen(payload: Payload, edited: Payload, decision: Decision) -> None:
    """Raise `HookReplyError` for a change of text that the user has seen already."""
    if not (isinstance(payload, LLMResponse) and isinstance(edited, LLMResponse) and payload.released):
        return
    seen = payload.released
    if isinstance(decision, Retry):
        raise HookReplyError(f"it asked for another round, and the user has seen {seen} characters of this one already")
    if text_of(edited.response)[:seen] != text_of(payload.response)[:seen]:
        raise HookReplyError(f"it changed text that the user has seen already: the first {seen} characters are out")
