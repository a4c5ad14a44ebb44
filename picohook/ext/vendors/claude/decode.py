"""Reads the answers of Claude Code's handlers.

1. Exit code 2 blocks, whatever the output says.
2. Otherwise a valid JSON object decides, with any exit code.
3. Otherwise an exit code other than 0, and broken JSON, are errors. In Claude Code they block nothing.
4. Otherwise the text is context at SessionStart and UserPromptSubmit, and is ignored elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import choice, ended, flag, read_object, read_ok, require_no_hidden_answer, table, text_field
from .events import ANSWERS, EVENTS
from .tool_response import text_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ....errors import HookError
    from ..contract import Failures, HandlerResult, Rule

BLOCK = 2
_ENDS_WITHOUT_REASON = "a hook ended the turn"
_TEXT_IS_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})
_DECIDES_AT_TOP = frozenset(
    {
        "PreToolUse",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Stop",
        "SubagentStop",
        "PreCompact",
    }
)
_PERMISSIONS = frozenset({"allow", "deny", "ask", "defer"})


def failed(event: str, rule: Rule, _result: HandlerResult, error: HookError) -> HandlerAnswer:
    """Returns the answer of a handler that failed."""
    blocks = rule.blocks_on_failure and EVENTS[event].blocks
    return HandlerAnswer("deny", str(error)) if blocks else HandlerAnswer(failure=error)


def read(event: str, rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. Raises `HookError` for a failure."""
    strict = failures == "strict"
    if rule.kind == "prompt":
        return _of_prompt(event, rule, result)
    broken: HookReplyError | None = None
    answer = HandlerAnswer()
    try:
        printed = read_object(result.stdout, strict=strict)
        if printed is not None:
            answer = _of_json(event, printed)
    except HookReplyError as error:
        printed, broken = None, error
    if result.exit_code == BLOCK and _blocks(event, strict=strict):
        reason = answer.reason if answer.verdict == "deny" else ""
        return replace(
            answer, verdict="deny", reason=reason or shortened(result.stderr.strip()), input=None, output=None
        )
    if broken is not None:
        raise broken
    if printed is not None:
        if strict and result.exit_code and answer.verdict not in {"deny", "ask", "defer"} and answer.ends is None:
            raise ended(result)
        return answer
    if result.exit_code == BLOCK:
        return HandlerAnswer(message=shortened(result.stderr.strip()))
    if result.exit_code:
        raise ended(result)
    text = result.stdout.strip()
    if rule.kind == "http" and text:
        raise HookReplyError("its answer is not a JSON object")
    if strict:
        require_no_hidden_answer(text, ANSWERS)
    return HandlerAnswer(context=shortened(text)) if event in _TEXT_IS_CONTEXT else HandlerAnswer()


def _blocks(event: str, *, strict: bool) -> bool:
    """Whether exit code 2 blocks at this event. Claude Code ignores it at PermissionRequest."""
    return bool(EVENTS[event].blocks) and (event != "PermissionRequest" or strict)


def _of_json(event: str, printed: Mapping[str, Any]) -> HandlerAnswer:
    inner = table(printed, "hookSpecificOutput") or {}
    blocks = choice(printed, "decision", {"approve", "block"}) == "block" and event in _DECIDES_AT_TOP
    if inner and inner.get("hookEventName") != event:
        if not blocks:
            raise HookReplyError(f"`hookSpecificOutput.hookEventName` is not {event}")
        inner = {}
    ends = None
    if flag(printed, "continue") is False:
        ends = text_field(printed, "stopReason") or _ENDS_WITHOUT_REASON
    answer = HandlerAnswer(
        context=shortened(text_field(inner, "additionalContext")),
        message=shortened(text_field(printed, "systemMessage")),
        ends=ends,
        reason=shortened(text_field(printed, "reason")),
        ignored=tuple(_ignored(event, printed, inner)),
    )
    if blocks:
        answer = replace(answer, verdict="deny")
    elif event == "PreToolUse":
        return _of_permission(answer, inner, printed.get("decision"))
    if event == "PermissionRequest":
        return _of_request(answer, inner)
    if event == "PostToolUse":
        changed = inner.get("updatedToolOutput", inner.get("updatedMCPToolOutput"))
        if changed is not None and text_in(changed) is None:
            raise HookReplyError("`updatedToolOutput` does not have the shape of the tool's result")
        return replace(answer, output=changed)
    return answer


def _of_permission(answer: HandlerAnswer, inner: Mapping[str, Any], top: str | None) -> HandlerAnswer:
    verdict = choice(inner, "permissionDecision", _PERMISSIONS) or ("allow" if top == "approve" else "")
    reason = shortened(text_field(inner, "permissionDecisionReason")) or answer.reason
    changed = table(inner, "updatedInput")
    return replace(answer, verdict=verdict, reason=reason, input=changed)  # type: ignore[arg-type] # one of the words


def _of_request(answer: HandlerAnswer, inner: Mapping[str, Any]) -> HandlerAnswer:
    decision = table(inner, "decision")
    if decision is None:
        return answer
    verdict = choice(decision, "behavior", {"allow", "deny"})
    if not verdict:
        raise HookReplyError("`decision` has no `behavior`")
    changed, reason = table(decision, "updatedInput"), shortened(text_field(decision, "message"))
    permissions = decision.get("updatedPermissions")
    return replace(answer, verdict=verdict, reason=reason, input=changed, permissions=permissions)  # type: ignore[arg-type] # one of the words


def _ignored(event: str, printed: Mapping[str, Any], inner: Mapping[str, Any]) -> list[str]:
    """The fields that mean nothing at this event."""
    row = EVENTS[event]
    at_top = [name for name in printed if name not in ANSWERS]
    inside = [f"hookSpecificOutput.{name}" for name in inner if name not in {"hookEventName", *row.writes}]
    return at_top + inside


def _of_prompt(event: str, rule: Rule, result: HandlerResult) -> HandlerAnswer:
    """Returns the answer in a model's `{"ok": ..., "reason": ...}`.

    At PermissionRequest a refusal denies. In Claude Code it leaves the question to a person, who may not be there.
    """
    good, printed = read_ok(result.stdout)
    reason = shortened(text_field(printed, "reason"))
    if good:
        return HandlerAnswer()
    if event in {"Stop", "SubagentStop"}:
        impossible = flag(printed, "impossible")
        return HandlerAnswer(message=reason, yields=True) if impossible else HandlerAnswer("deny", reason)
    if not EVENTS[event].blocks:
        return HandlerAnswer(message=reason)
    ends = None if rule.continues_on_block or event == "PermissionRequest" else reason or _ENDS_WITHOUT_REASON
    return HandlerAnswer("deny", reason, ends=ends)
