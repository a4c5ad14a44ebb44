"""Reads the answers of Codex's handlers. Output counts only with exit code 0. Unknown fields are errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import BLANK, choice, ended, flag, read_object, require_no_hidden_answer, table, text_field
from .events import ANSWERS, ENDS, EVENTS, RESERVED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..contract import Failures, HandlerResult, Rule

BLOCK = 2
_TEXT_IS_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})
_TEXT_IS_WRONG = frozenset({"Stop", "SubagentStop"})
_DECIDES_AT_TOP = frozenset({"PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop"})
_NOT_BEFORE_TOOLS = ("stopReason", "suppressOutput")


def read(event: str, _rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. Raises `HookError` for a failure."""
    strict = failures == "strict"
    stderr = shortened(result.stderr.strip())
    if result.exit_code == BLOCK and stderr and EVENTS[event].blocks:
        return HandlerAnswer("deny", stderr)
    if result.exit_code:
        raise ended(result)
    printed = read_object(result.stdout, strict=strict, blank=BLANK)
    if printed is not None:
        return _of_json(event, printed, strict=strict)
    text = result.stdout.strip()
    if text and event in _TEXT_IS_WRONG:
        raise HookReplyError("it printed text, and only a JSON object is an answer")
    if strict:
        require_no_hidden_answer(text, ANSWERS)
    return HandlerAnswer(context=shortened(text)) if event in _TEXT_IS_CONTEXT else HandlerAnswer()


def _of_json(event: str, printed: Mapping[str, Any], *, strict: bool) -> HandlerAnswer:
    """The answer. Codex takes the name of any of its events for the event. In strict, only a denial may have the wrong one."""
    inner = table(printed, "hookSpecificOutput")
    _require_known(printed, ANSWERS)
    if inner is not None:
        _require_known(inner, ("hookEventName", *EVENTS[event].writes))
        named = choice(inner, "hookEventName", EVENTS)
        if not named or (strict and named != event and inner.get("permissionDecision") != "deny"):
            raise HookReplyError(f"`hookSpecificOutput.hookEventName` is not {event}")
    else:
        inner = {}
    goes_on = flag(printed, "continue") is not False
    answer = HandlerAnswer(
        context=shortened(text_field(inner, "additionalContext")),
        message=shortened(text_field(printed, "systemMessage")),
        ends=None if goes_on or event not in ENDS else text_field(printed, "stopReason") or "a hook ended the turn",
        reason=shortened(text_field(printed, "reason")),
    )
    top = choice(printed, "decision", {"approve", "block"} if event == "PreToolUse" else {"block"})
    if event == "PreToolUse":
        unsupported = [name for name in _NOT_BEFORE_TOOLS if printed.get(name)] + ([] if goes_on else ["continue"])
        return _of_call(answer, inner, top, unsupported)
    if event == "PermissionRequest":
        return _of_request(answer, inner)
    if event in _DECIDES_AT_TOP and top == "block":
        if not answer.reason.strip():
            raise HookReplyError("it blocks without a `reason`")
        return replace(answer, verdict="deny")
    return answer


def _require_known(fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise HookReplyError(f"`{unknown[0]}` is not a field of this answer (known: {', '.join(known)})")


def _of_call(answer: HandlerAnswer, inner: Mapping[str, Any], top: str, unsupported: list[str]) -> HandlerAnswer:
    verdict = choice(inner, "permissionDecision", {"allow", "deny", "ask"})
    reason = shortened(text_field(inner, "permissionDecisionReason"))
    if not verdict:
        verdict, reason = {"block": "deny"}.get(top, ""), answer.reason
    changed = inner.get("updatedInput")
    if top == "approve" and verdict != "deny":
        unsupported = ["decision", *unsupported]
    if verdict == "ask":
        unsupported = ["permissionDecision", *unsupported]
    if unsupported:
        raise HookReplyError(f"Codex does not support this `{unsupported[0]}` at PreToolUse")
    if verdict == "deny" and not reason.strip():
        raise HookReplyError("it denies without a `permissionDecisionReason`")
    if (verdict == "allow") is not (changed is not None):
        raise HookReplyError("`allow` and `updatedInput` come together: alone, neither is an answer")
    if not isinstance(changed, dict | None):
        return HandlerAnswer("deny", "its `updatedInput` is not an object")
    return replace(answer, verdict=verdict, reason=reason, input=changed)  # type: ignore[arg-type] # one of the words


def _of_request(answer: HandlerAnswer, inner: Mapping[str, Any]) -> HandlerAnswer:
    decision = table(inner, "decision")
    if decision is None:
        return answer
    reserved = next((name for name in RESERVED if decision.get(name) not in (None, False)), None)
    if reserved is not None:
        return replace(answer, verdict="deny", reason=f"its answer has `{reserved}`, which Codex reserves")
    _require_known(decision, ("behavior", "message", *RESERVED))
    verdict = choice(decision, "behavior", {"allow", "deny"})
    if not verdict:
        raise HookReplyError("`decision` has no `behavior`")
    return replace(answer, verdict=verdict, reason=shortened(text_field(decision, "message")))  # type: ignore[arg-type]
