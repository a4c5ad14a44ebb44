"""Reads the answers of Gemini CLI's handlers.

1. JSON on stdout decides, with any exit code. If stdout is empty, stderr is read in its place.
2. Otherwise the exit code decides: with 0 the text is a message for the user, with 1 a warning, with any other the reason of a
   block.
3. Empty output blocks nothing, whatever the exit code.

In strict, exit code 2 always blocks. Any other exit code than 0 is a failure, unless the answer blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import BLANK, BOM, choice, ended, flag, loads, read_object, require_no_hidden_answer, table, text_field
from .events import ANSWERS, DECIDE, EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..contract import Failures, HandlerResult, Rule

WARN, BLOCK = 1, 2
_ENDS_WITHOUT_REASON = "a hook ended the turn"
_DECISIONS = {"ask": "ask", "block": "deny", "deny": "deny", "approve": "allow", "allow": "allow"}
_KINDS = {
    "continue": bool,
    "stopReason": str,
    "systemMessage": str,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
}
_EDITS = ("llm_request", "llm_response", "toolConfig")


def read(event: str, _rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. Raises `HookError` for a failure."""
    return _strictly(event, result) if failures == "strict" else _as_the_vendor(event, result)


def _strictly(event: str, result: HandlerResult) -> HandlerAnswer:
    text, stderr = _text(result), shortened(result.stderr.strip())
    try:
        printed = read_object(_unpacked(text), strict=True)
        answer = HandlerAnswer() if printed is None else _of_json(event, printed)
    except HookReplyError:
        if result.exit_code != BLOCK:
            raise
        printed, answer = None, HandlerAnswer()
    if result.exit_code == BLOCK and answer.verdict != "deny":
        return replace(
            answer,
            verdict="deny",
            reason=stderr or (shortened(text) if printed is None else ""),
            input=None,
            output=None,
        )
    if result.exit_code and answer.verdict not in {"deny", "ask"} and answer.ends is None:
        raise ended(result)
    if printed is not None:
        return answer
    require_no_hidden_answer(text, ANSWERS)
    return HandlerAnswer(message=shortened(text))


def _as_the_vendor(event: str, result: HandlerResult) -> HandlerAnswer:
    text, code = _text(result), max(result.exit_code, 0)  # a signal counts as no code
    try:
        printed = loads(_unpacked(text) or "null")
    except ValueError:
        if code > WARN:
            return HandlerAnswer("deny", shortened(text))
        return HandlerAnswer("allow", message=shortened(f"Warning: {text}" if code else text))
    if not isinstance(printed, dict):
        return HandlerAnswer(failure=ended(result) if result.exit_code else None)
    kept = {name: value for name, value in printed.items() if name not in _KINDS or isinstance(value, _KINDS[name])}
    if kept.get("decision") not in _DECISIONS:
        kept.pop("decision", None)
    return _of_json(event, kept)


def _text(result: HandlerResult) -> str:
    """The handler's stdout; its stderr if stdout is empty."""
    return next(filter(None, (text.strip(BLANK + BOM) for text in (result.stdout, result.stderr))), "")


def _unpacked(text: str) -> str:
    """The text inside a JSON string; any other text as it is."""
    try:
        inner = loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return inner.strip(BLANK + BOM) if isinstance(inner, str) else text


def _of_json(event: str, printed: Mapping[str, Any]) -> HandlerAnswer:
    inner = table(printed, "hookSpecificOutput") or {}
    ends = None
    if event in DECIDE and flag(printed, "continue") is False:
        ends = text_field(printed, "stopReason") or text_field(printed, "reason") or _ENDS_WITHOUT_REASON
    decision = choice(printed, "decision", _DECISIONS.keys())
    edits = {
        name: table(inner, name) for name in _EDITS if name in EVENTS[event].writes and inner.get(name) is not None
    }
    return HandlerAnswer(
        verdict=_DECISIONS.get(decision, "") if event in DECIDE else "",  # type: ignore[arg-type] # one of the words
        reason=shortened(text_field(printed, "reason")),
        input=table(inner, "tool_input") if event == "BeforeTool" else None,
        output=edits or None,
        context=shortened(text_field(inner, "additionalContext"))
        if "additionalContext" in EVENTS[event].writes
        else "",
        message=shortened(text_field(printed, "systemMessage")),
        ends=ends,
        ignored=tuple(_ignored(event, printed, inner)),
    )


def _ignored(event: str, printed: Mapping[str, Any], inner: Mapping[str, Any]) -> list[str]:
    """The fields that mean nothing at this event."""
    at_top = [name for name in printed if name not in ANSWERS]
    if event not in DECIDE:
        at_top += [name for name in ("continue", "decision") if name in printed]
    inside = [f"hookSpecificOutput.{name}" for name in inner if name not in {"hookEventName", *EVENTS[event].writes}]
    return at_top + inside
