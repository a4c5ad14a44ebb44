"""Joins the answers of the handlers of one of Claude Code's events: deny before defer, ask and allow.

Claude Code takes the changed input of the handler that ends last. picohook takes that of the last handler in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ....model.decisions import APPROVE, AbortTurn, Approve, Deny, Pause, Retry, Skip
from ..contract import GroupAnswer
from ..merging import UNEXPLAINED, changed_arguments, for_user, let_pass, notes_of, reason_of
from .events import EVENTS
from .permissions import grant_of
from .tool_response import text_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ....model.trail import Notes
    from ..contract import Failures, HandlerAnswer, HandlerInput

_ORDER = ("deny", "defer", "ask", "allow")


def join(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, _failures: Failures
) -> GroupAnswer:
    """Returns the group's answer."""
    verdict = next((one for one in _ORDER if any(answer.verdict == one for answer in answers)), "")
    ends = next((answer.ends for answer in answers if answer.ends is not None), None)
    notes = notes_of(answers)
    reason = reason_of(answers, verdict)
    if ends is not None and event == "PermissionRequest":
        return GroupAnswer(Deny(ends))
    if ends is not None and event not in {"Stop", "SubagentStop"}:
        return GroupAnswer(AbortTurn(ends, notes=notes))
    match event:
        case "PreToolUse":
            return _of_call(verdict, reason, answers, handler_input, notes)
        case "PermissionRequest":
            return _of_request(verdict, reason, answers, handler_input)
        case "PostToolUse" | "PostToolUseFailure":
            return GroupAnswer(_of_result(verdict, reason, answers, payload, notes))
        case "Stop" | "SubagentStop":
            return _of_end(verdict, reason, answers, notes, ends=ends)
    blocked = (Skip if event == "PreCompact" else AbortTurn)(reason or UNEXPLAINED, notes=notes)
    refuses = verdict == "deny" and EVENTS[event].blocks
    return GroupAnswer(blocked if refuses else let_pass(notes))


def _of_call(
    verdict: str, reason: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, notes: Notes | None
) -> GroupAnswer:
    if verdict == "deny":
        return GroupAnswer(Deny(reason or UNEXPLAINED, notes=notes))
    if verdict == "defer":
        return GroupAnswer(Pause(reason, notes=notes))
    arguments = changed_arguments(answers, handler_input)
    decision = let_pass(notes, None if arguments is None else {"arguments": arguments})
    return GroupAnswer(decision, asks=verdict == "ask")


def _of_request(
    verdict: str, reason: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput
) -> GroupAnswer:
    if verdict == "deny":
        return GroupAnswer(Deny(reason or UNEXPLAINED))
    if verdict != "allow":
        return GroupAnswer(APPROVE, silent=True)
    arguments = changed_arguments(answers, handler_input)
    if arguments is not None and handler_input.call is not None and arguments != handler_input.call.given:
        changed = "it approves another call than the one that would run: a call can be changed at PreToolUse"
        return GroupAnswer(Deny(changed))
    updates = [answer.permissions for answer in answers if answer.verdict == "allow"]
    if handler_input.call is None or any(one != updates[0] for one in updates) or not updates[0]:
        return GroupAnswer(APPROVE)
    try:
        return GroupAnswer(Approve(grant=grant_of(updates[0], handler_input.call)))
    except HookReplyError as error:
        return GroupAnswer(APPROVE, failures=(error,))


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
    verdict: str, reason: str, answers: Sequence[HandlerAnswer], notes: Notes | None, *, ends: str | None
) -> GroupAnswer:
    """The decision at a turn's end. Unless a handler lets the turn end, a block or a context is feedback."""
    context = "" if notes is None else notes.additional_context
    if ends is not None or any(answer.yields for answer in answers) or not (verdict == "deny" or context):
        return GroupAnswer(let_pass(for_user(notes)))
    feedback = "\n\n".join(filter(None, (reason or (UNEXPLAINED if verdict == "deny" else ""), context)))
    return GroupAnswer(Retry(feedback, notes=for_user(notes)), blocks=True)
