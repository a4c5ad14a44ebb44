"""What the handlers of one of Claude Code's events say together: deny before defer, ask and allow.

Claude Code takes the changed input of the handler that ends last. Here it is that of the handler that stands last in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.decisions import APPROVE, CONTINUE, AbortTurn, Continue, Deny, Modify, Pause, Retry, Skip
from ....model.trail import Notes
from ..contract import GroupAnswer, shortened
from .encode import text_in
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....errors import HookError
    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ..contract import Failures, HandlerAnswer, HandlerInput

_ORDER = ("deny", "defer", "ask", "allow")
UNEXPLAINED = "blocked by a hook, which gave no reason"


def merge(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """The verdict. Raises the first failure that decides: in strict, of a gate that nobody else closes.

    A failure is never an approval. So it also decides about a request for permission, whatever the vendor makes of it.
    """
    failed = tuple(answer.failure for answer in answers if answer.failure is not None)
    verdict = next((one for one in _ORDER if any(answer.verdict == one for answer in answers)), "")
    ends = next((answer.ends for answer in answers if answer.ends is not None), None)
    decides = EVENTS[event].gate and (failures == "strict" or event == "PermissionRequest")
    if failed and decides and verdict != "deny" and ends is None:
        raise failed[0]
    notes = _notes(answers)
    reason = shortened("\n".join(answer.reason for answer in answers if answer.verdict == verdict and answer.reason))
    if ends is not None and event == "PermissionRequest":
        return GroupAnswer(Deny(ends), failures=failed)
    if ends is not None and event not in {"Stop", "SubagentStop"}:
        return GroupAnswer(AbortTurn(ends, notes=notes), failures=failed)
    match event:
        case "PreToolUse":
            return _of_call(verdict, reason, answers, handler_input, notes, failed)
        case "PermissionRequest":
            return _of_request(verdict, reason, answers, handler_input, failed)
        case "PostToolUse" | "PostToolUseFailure":
            return GroupAnswer(_of_result(verdict, reason, answers, payload, notes), failures=failed)
        case "Stop" | "SubagentStop":
            return _of_end(verdict, reason, answers, notes, failed, ends=ends)
    blocked = (Skip if event == "PreCompact" else AbortTurn)(reason or UNEXPLAINED, notes=notes)
    refuses = verdict == "deny" and EVENTS[event].blocks
    return GroupAnswer(blocked if refuses else _going_on(notes), failures=failed)


def _notes(answers: Sequence[HandlerAnswer]) -> Notes | None:
    contexts = "\n\n".join(answer.context for answer in answers if answer.context)
    messages = "\n".join(answer.message for answer in answers if answer.message)
    return Notes(messages, contexts) if contexts or messages else None


def _going_on(notes: Notes | None, changes: dict[str, Any] | None = None) -> Decision:
    if changes:
        return Modify(changes, notes=notes)
    return Continue(notes=notes) if notes is not None else CONTINUE


def changed_arguments(answers: Sequence[HandlerAnswer], handler_input: HandlerInput) -> dict[str, Any] | None:
    """The arguments of the last handler that changed them; None if none did."""
    inputs = [answer.input for answer in answers if answer.input is not None]
    return handler_input.call.arguments(inputs[-1]) if inputs and handler_input.call is not None else None


def _of_call(  # noqa: PLR0917 - what `merge` has made
    verdict: str,
    reason: str,
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    notes: Notes | None,
    failed: tuple[HookError, ...],
) -> GroupAnswer:
    if verdict == "deny":
        return GroupAnswer(Deny(reason or UNEXPLAINED, notes=notes), failures=failed)
    if verdict == "defer":
        return GroupAnswer(Pause(reason, notes=notes), failures=failed)
    arguments = changed_arguments(answers, handler_input)
    going_on = _going_on(notes, None if arguments is None else {"arguments": arguments})
    return GroupAnswer(going_on, asks=verdict == "ask", failures=failed)


def _of_request(
    verdict: str,
    reason: str,
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    failed: tuple[HookError, ...],
) -> GroupAnswer:
    if verdict == "deny":
        return GroupAnswer(Deny(reason or UNEXPLAINED), failures=failed)
    if verdict != "allow":
        return GroupAnswer(APPROVE, silent=True, failures=failed)
    arguments = changed_arguments(answers, handler_input)
    if arguments is not None and handler_input.call is not None and arguments != handler_input.call.given:
        changed = "it approves another call than the one that would run: a call can be changed at PreToolUse"
        return GroupAnswer(Deny(changed), failures=failed)
    return GroupAnswer(APPROVE, failures=failed)


def _of_result(
    verdict: str, reason: str, answers: Sequence[HandlerAnswer], payload: Payload, notes: Notes | None
) -> Decision:
    outputs = [answer.output for answer in answers if answer.output is not None]
    result = payload.__dict__["result"]
    text = text_in(outputs[-1]) if outputs else result.for_llm
    more = [notes.additional_context] if notes is not None and notes.additional_context else []
    more += [reason or UNEXPLAINED] if verdict == "deny" else []
    said = "\n\n".join(filter(None, (text, *more)))
    for_user = Notes(notes.system_message) if notes is not None and notes.system_message else None
    return _going_on(for_user, {"for_llm": said} if said != result.for_llm else None)


def _of_end(
    verdict: str,
    reason: str,
    answers: Sequence[HandlerAnswer],
    notes: Notes | None,
    failed: tuple[HookError, ...],
    *,
    ends: str | None,
) -> GroupAnswer:
    """The turn may end if a handler says so. Otherwise a block, and a context, is feedback for another round."""
    context = "" if notes is None else notes.additional_context
    if ends is not None or any(answer.yields for answer in answers) or not (verdict == "deny" or context):
        message = "" if notes is None else notes.system_message
        return GroupAnswer(_going_on(Notes(message) if message else None), failures=failed)
    feedback = "\n\n".join(filter(None, (reason or (UNEXPLAINED if verdict == "deny" else ""), context)))
    for_user = Notes(notes.system_message) if notes is not None and notes.system_message else None
    return GroupAnswer(Retry(feedback, notes=for_user), blocks=True, failures=failed)
