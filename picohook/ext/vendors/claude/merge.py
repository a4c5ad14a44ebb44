"""Joins the answers of the handlers of one of Claude Code's events: deny before defer, ask and allow.

Claude Code takes the changed input of the handler that ends last. picohook takes that of the last handler in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....model.decisions import APPROVE, AbortTurn, Deny, Pause, Retry, Skip
from ..contract import GroupAnswer
from ..merging import UNEXPLAINED, changed_arguments, failures_of, for_user, let_pass, notes_of, reason_of
from .events import EVENTS
from .tool_response import text_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....errors import HookError
    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ....model.trail import Notes
    from ..contract import Failures, HandlerAnswer, HandlerInput

_ORDER = ("deny", "defer", "ask", "allow")


def merge(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """Returns the group's answer. In strict, raises the first failure of a gate, unless a handler denies.

    A failure is never an approval. So it is also raised at PermissionRequest, even as the vendor.
    """
    failed = failures_of(answers)
    verdict = next((one for one in _ORDER if any(answer.verdict == one for answer in answers)), "")
    ends = next((answer.ends for answer in answers if answer.ends is not None), None)
    decides = EVENTS[event].gate and (failures == "strict" or event == "PermissionRequest")
    if failed and decides and verdict != "deny" and ends is None:
        raise failed[0]
    notes = notes_of(answers)
    reason = reason_of(answers, verdict)
    if ends is not None and event == "PermissionRequest":
        return GroupAnswer(Deny(ends), failures=failed)
    if ends is not None and event not in {"Stop", "SubagentStop"}:
        return GroupAnswer(AbortTurn(ends, notes=notes), failures=failed)
    match event:
        case "PreToolUse":
            return _of_call(verdict, reason, answers, handler_input, notes, failed=failed)
        case "PermissionRequest":
            return _of_request(verdict, reason, answers, handler_input, failed)
        case "PostToolUse" | "PostToolUseFailure":
            return GroupAnswer(_of_result(verdict, reason, answers, payload, notes), failures=failed)
        case "Stop" | "SubagentStop":
            return _of_end(verdict, reason, answers, notes, failed, ends=ends)
    blocked = (Skip if event == "PreCompact" else AbortTurn)(reason or UNEXPLAINED, notes=notes)
    refuses = verdict == "deny" and EVENTS[event].blocks
    return GroupAnswer(blocked if refuses else let_pass(notes), failures=failed)


def _of_call(
    verdict: str,
    reason: str,
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    notes: Notes | None,
    *,
    failed: tuple[HookError, ...],
) -> GroupAnswer:
    if verdict == "deny":
        return GroupAnswer(Deny(reason or UNEXPLAINED, notes=notes), failures=failed)
    if verdict == "defer":
        return GroupAnswer(Pause(reason, notes=notes), failures=failed)
    arguments = changed_arguments(answers, handler_input)
    decision = let_pass(notes, None if arguments is None else {"arguments": arguments})
    return GroupAnswer(decision, asks=verdict == "ask", failures=failed)


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
    for_llm = "\n\n".join(filter(None, (text, *more)))
    return let_pass(for_user(notes), {"for_llm": for_llm} if for_llm != result.for_llm else None)


def _of_end(
    verdict: str,
    reason: str,
    answers: Sequence[HandlerAnswer],
    notes: Notes | None,
    failed: tuple[HookError, ...],
    *,
    ends: str | None,
) -> GroupAnswer:
    """The decision at a turn's end. Unless a handler lets the turn end, a block or a context is feedback."""
    context = "" if notes is None else notes.additional_context
    if ends is not None or any(answer.yields for answer in answers) or not (verdict == "deny" or context):
        return GroupAnswer(let_pass(for_user(notes)), failures=failed)
    feedback = "\n\n".join(filter(None, (reason or (UNEXPLAINED if verdict == "deny" else ""), context)))
    return GroupAnswer(Retry(feedback, notes=for_user(notes)), blocks=True, failures=failed)
