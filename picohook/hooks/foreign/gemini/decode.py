"""What an answer of one of Gemini CLI's handlers means.

1. JSON on stdout decides, with any exit code. If stdout is empty, stderr is read in its place.
2. Otherwise the text is a message for the user with exit code 0, a warning with 1, and the reason of a block with any other.
3. Without any text, nothing is blocked, whatever the exit code.

In strict, exit code 2 blocks in every case, and another exit code than 0 is a failure unless the answer blocks.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookError, HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import choice, ended, flag, hidden_object, read_object, table, text_field
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


def decode(event: str, _rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """What a handler says. A failure is in the answer; in strict, more counts as one."""
    strict = failures == "strict" and EVENTS[event].gate
    try:
        if result.failure is not None:
            raise result.failure
        return _strictly(event, result) if strict else _as_the_vendor(event, result)
    except HookError as error:
        return HandlerAnswer(failure=error)


def _strictly(event: str, result: HandlerResult) -> HandlerAnswer:
    text, stderr = _text(result), shortened(result.stderr.strip())
    try:
        said = read_object(_unpacked(text), strict=True)
        answer = HandlerAnswer() if said is None else _of_json(event, said)
    except HookReplyError:
        if result.exit_code != BLOCK:
            raise
        said, answer = None, HandlerAnswer()
    if result.exit_code == BLOCK and answer.verdict != "deny":
        return replace(
            answer, verdict="deny", reason=stderr or (shortened(text) if said is None else ""), input=None, output=None
        )
    if result.exit_code and answer.verdict not in {"deny", "ask"} and answer.ends is None:
        raise ended(result)
    if said is not None:
        return answer
    if hidden_object(text, ANSWERS):
        raise HookReplyError("its answer is behind other text, which hides it: it has to print the JSON object alone")
    return HandlerAnswer(message=shortened(text))


def _as_the_vendor(event: str, result: HandlerResult) -> HandlerAnswer:
    text, code = _text(result), max(result.exit_code, 0)  # a signal counts as no code
    try:
        said = json.loads(_unpacked(text) or "null", parse_constant=_refuse)
    except (ValueError, RecursionError):
        if code > WARN:
            return HandlerAnswer("deny", shortened(text))
        return HandlerAnswer("allow", message=shortened(f"Warning: {text}" if code else text))
    if not isinstance(said, dict):
        return HandlerAnswer(failure=ended(result) if result.exit_code else None)
    kept = {name: value for name, value in said.items() if name not in _KINDS or isinstance(value, _KINDS[name])}
    if kept.get("decision") not in _DECISIONS:
        kept.pop("decision", None)
    return _of_json(event, kept)


def _text(result: HandlerResult) -> str:
    """What it has printed: on stderr, if nothing is on stdout."""
    return next(filter(None, (text.strip().strip("\ufeff").strip() for text in (result.stdout, result.stderr))), "")


def _unpacked(text: str) -> str:
    """The text that a JSON string is, if that begins as JSON; any other text as it is."""
    try:
        inner = json.loads(text) if text.startswith('"') else text
    except (ValueError, RecursionError):
        return text
    return inner.strip() if isinstance(inner, str) else text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _of_json(event: str, said: Mapping[str, Any]) -> HandlerAnswer:
    inner = table(said, "hookSpecificOutput") or {}
    ends = None
    if event in DECIDE and flag(said, "continue") is False:
        ends = text_field(said, "stopReason") or text_field(said, "reason") or _ENDS_WITHOUT_REASON
    decision = choice(said, "decision", _DECISIONS.keys())
    edits = {
        name: table(inner, name) for name in _EDITS if name in EVENTS[event].writes and inner.get(name) is not None
    }
    return HandlerAnswer(
        verdict=_DECISIONS.get(decision, "") if event in DECIDE else "",  # type: ignore[arg-type] # one of the words
        reason=shortened(text_field(said, "reason")),
        input=table(inner, "tool_input") if event == "BeforeTool" else None,
        output=edits or None,
        context=shortened(text_field(inner, "additionalContext"))
        if "additionalContext" in EVENTS[event].writes
        else "",
        message=shortened(text_field(said, "systemMessage")),
        ends=ends,
        ignored=tuple(_ignored(event, said, inner)),
    )


def _ignored(event: str, said: Mapping[str, Any], inner: Mapping[str, Any]) -> list[str]:
    """The fields that mean nothing here."""
    at_top = [name for name in said if name not in ANSWERS]
    if event not in DECIDE:
        at_top += [name for name in ("continue", "decision") if name in said]
    inside = [f"hookSpecificOutput.{name}" for name in inner if name not in {"hookEventName", *EVENTS[event].writes}]
    return at_top + inside
