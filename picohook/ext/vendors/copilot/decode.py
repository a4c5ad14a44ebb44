"""Reads the answers of Copilot's handlers.

1. Lines that report progress do not count. The other lines are one JSON object, or nothing.
2. Any exit code other than 0 is a denial at `preToolUse`, and exit code 2 at `permissionRequest`, whatever the output says.
3. A timeout, an HTTP error, and an exit code elsewhere are failures. In Copilot they deny nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....errors import HookReplyError, HookTimeoutError
from ..contract import HandlerAnswer, shortened
from ..output import BLANK, BOM, choice, ended, flag, read_object, require_no_hidden_answer, table, text_field
from .events import BASE, EVENTS, is_pascal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....errors import HookError
    from ..contract import Failures, HandlerResult, Rule

BLOCK = 2
_NOT_RUN = frozenset({126, 127})
"""The exit codes of a shell that cannot run a program."""
_GATES = frozenset({"preToolUse", "permissionRequest"})
_UNREAD = frozenset({"sessionEnd", "preCompact", "errorOccurred"})
"""The events at which no output counts."""
INNER = "hookSpecificOutput"
"""The table whose fields count at the events in PascalCase, as in Claude Code."""


def failed(event: str, rule: Rule, result: HandlerResult, error: HookError) -> HandlerAnswer:
    """Returns the answer of a handler that failed."""
    if BASE[event] != "preToolUse" or rule.kind != "command" or isinstance(error, HookTimeoutError | HookReplyError):
        return HandlerAnswer(failure=error)
    is_own = result.failure is None and result.exit_code > 0 and result.exit_code not in _NOT_RUN
    return HandlerAnswer("deny", f"the hook failed: {error}", failure=None if is_own else error)


def read(event: str, _rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. Raises `HookError` for a failure."""
    strict = failures == "strict"
    base = BASE[event]
    text = without_progress(result.stdout)
    if result.exit_code == BLOCK and base in _GATES:
        return HandlerAnswer(
            "deny", _reason(text) or ("" if base == "permissionRequest" else shortened(result.stderr.strip()))
        )
    if result.exit_code == BLOCK and base == "postToolUseFailure":
        printed = _object(text)
        return HandlerAnswer(context=shortened(text if printed is None else text_field(printed, "additionalContext")))
    is_prompt = base == "userPromptSubmitted"
    printed = _object(text.strip(BLANK + BOM)) if is_prompt else None
    if result.exit_code == BLOCK and printed is None and not strict:
        return HandlerAnswer(message=shortened(result.stderr.strip()))
    if result.exit_code and not (result.exit_code == BLOCK and printed is not None):
        raise ended(result)
    if base in _UNREAD:
        return HandlerAnswer()
    printed = read_object(text, strict=strict)
    if printed is None:
        if strict:
            require_no_hidden_answer(text, {INNER, *EVENTS[base].writes})
        return HandlerAnswer()
    return _of_json(base, _counting(event, printed))


def _counting(event: str, printed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that count. At an event in PascalCase the inner ones come first. Each way to change a call has its place."""
    if not is_pascal(event):
        return {name: value for name, value in printed.items() if name != "updatedInput"}
    inner = {name: value for name, value in (table(printed, INNER) or {}).items() if value is not None}
    inner.pop("modifiedArgs", None)
    return {**printed, "updatedInput": None, **inner}


def without_progress(stdout: str) -> str:
    """The output without the lines that only report progress. An object alone is the answer, whatever it reports."""
    if _object(stdout.strip(BLANK + BOM)) is not None:
        return stdout
    return "\n".join(line for line in stdout.splitlines() if not _is_progress(line.strip())).strip()


def _is_progress(line: str) -> bool:
    if not line.startswith("{") or '"progress"' not in line:
        return False
    printed = _object(line)
    return printed is not None and printed.get("type") == "progress"


def _object(text: str) -> dict[str, Any] | None:
    try:
        printed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return printed if isinstance(printed, dict) else None


def _reason(text: str) -> str:
    """The reason in the output of a handler that denies by its exit code."""
    printed = _object(text) or {}
    found = printed.get("permissionDecisionReason") or printed.get("message") or printed.get("reason")
    return shortened(found) if isinstance(found, str) else ""


def _of_json(base: str, printed: Mapping[str, Any]) -> HandlerAnswer:
    if base == "preToolUse" and printed.get("permissionDecision") == "deny":  # whatever else is wrong
        why = printed.get("permissionDecisionReason")
        return HandlerAnswer("deny", shortened(why) if isinstance(why, str) else "")
    answer = HandlerAnswer(
        ignored=tuple(name for name in printed if name not in {INNER, "hookEventName", *EVENTS[base].writes})
    )
    if "additionalContext" in EVENTS[base].writes:
        answer = replace(answer, context=shortened(text_field(printed, "additionalContext")))
    match base:
        case "preToolUse":
            verdict = choice(printed, "permissionDecision", {"allow", "deny", "ask"})
            reason = shortened(text_field(printed, "permissionDecisionReason"))
            changed = printed["modifiedArgs"] if "modifiedArgs" in printed else printed.get("updatedInput")
            if not isinstance(changed, dict) and ("modifiedArgs" in printed or changed is not None):
                return HandlerAnswer("deny", "the changed arguments are not an object")
            return replace(answer, verdict=verdict, reason=reason, input=changed)  # type: ignore[arg-type] # one of the words
        case "permissionRequest":
            flag(printed, "interrupt")
            verdict = choice(printed, "behavior", {"allow", "deny"})
            return replace(answer, verdict=verdict, reason=shortened(text_field(printed, "message")))  # type: ignore[arg-type]
        case "postToolUse":
            changed = table(printed, "modifiedResult")
            return answer if changed is None else replace(answer, output=text_field(changed, "textResultForLlm"))
        case "agentStop" | "subagentStop":
            blocks = choice(printed, "decision", {"block", "allow"}) == "block"
            return replace(answer, verdict="deny" if blocks else "", reason=shortened(text_field(printed, "reason")))
        case "userPromptSubmitted":
            why = printed.get("reason")
            blocks = printed.get("decision") == "block" and isinstance(why, str)
            return replace(answer, verdict="deny", reason=shortened(why or "")) if blocks else answer
        case "userPromptTransformed":
            return replace(answer, output=text_field(printed, "modifiedTransformedPrompt") or None)
    return answer
