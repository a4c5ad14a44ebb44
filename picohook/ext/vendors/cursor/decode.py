"""Reads the answers of Cursor's handlers.

1. Exit code 2 is a denial, whatever the output says.
2. With exit code 0, the output is one JSON object, or nothing.
3. Everything else is a failure. In Cursor, a failure blocks only if the handler has `failClosed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import choice, ended, flag, read_object, read_ok, table, text_field
from .events import ALIASES, ANSWERS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ....errors import HookError
    from ..contract import Failures, HandlerResult, Rule

BLOCK = 2
_ENDS = frozenset({"stop", "subagentStop"})
_PERMISSIONS = frozenset({"allow", "deny", "ask"})


def failed(event: str, rule: Rule, _result: HandlerResult, error: HookError) -> HandlerAnswer:
    """Returns the answer of a handler that failed."""
    blocks = rule.blocks_on_failure and EVENTS[event].gate
    return HandlerAnswer("deny", str(error)) if blocks else HandlerAnswer(failure=error)


def read(event: str, rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. Raises `HookError` for a failure."""
    strict = failures == "strict"
    if rule.kind == "prompt":
        return _of_prompt(event, result)
    if result.exit_code == BLOCK and EVENTS[event].gate:
        try:
            printed = _of_json(event, read_object(result.stdout, strict=strict) or {}, strict=strict)
        except HookReplyError:
            printed = HandlerAnswer()
        return HandlerAnswer("deny", printed.reason or shortened(result.stderr.strip()), message=printed.message)
    if result.exit_code:
        raise ended(result)
    answer = read_object(result.stdout, strict=strict)
    if answer is None and result.stdout.strip():
        raise HookReplyError("it printed text, and only a JSON object is an answer")
    return _of_json(event, answer or {}, strict=strict)


def _of_json(event: str, answer: Mapping[str, Any], *, strict: bool) -> HandlerAnswer:
    printed = {ALIASES.get(name, name): value for name, value in answer.items() if ALIASES.get(name) not in answer}
    row = EVENTS[event]
    verdict = choice(printed, "permission", _PERMISSIONS) if row.gate else ""
    goes_on = flag(printed, "continue")
    if event == "beforeSubmitPrompt":
        denies = goes_on is False or (verdict == "deny" and strict)
        verdict = "deny" if denies else ""
    elif strict and goes_on is False and not verdict:
        verdict = "deny"
    if verdict == "ask" and event == "subagentStart":
        verdict = "deny"
    if verdict == "ask" and event == "preToolUse" and not strict:
        verdict = ""
    follow_up = text_field(printed, "followup_message") if event in _ENDS else ""
    for_user = shortened(text_field(printed, "user_message"))
    env = table(printed, "env") or {} if event == "sessionStart" else {}
    return HandlerAnswer(
        verdict="deny" if follow_up else verdict,  # type: ignore[arg-type] # one of the words
        reason=shortened(follow_up or text_field(printed, "agent_message")) or for_user,
        message=for_user if verdict in {"deny", "ask"} or event == "preCompact" else "",
        input=table(printed, "updated_input") if event == "preToolUse" else None,
        output=printed.get("updated_mcp_tool_output") if event == "postToolUse" else None,
        context=shortened(text_field(printed, "additional_context")) if "additional_context" in row.writes else "",
        env={name: value for name, value in env.items() if _is_variable(name, value)},
        ignored=tuple(name for name in printed if name not in {*ANSWERS, *row.writes}),
    )


def _is_variable(name: str, value: Any) -> bool:
    if isinstance(value, str) and name and "\0" not in name + value and "=" not in name:
        return True
    raise HookReplyError("`env` is not an object of texts")


def _of_prompt(event: str, result: HandlerResult) -> HandlerAnswer:
    """Returns the answer in a model's `{"ok": ..., "reason": ...}`."""
    good, printed = read_ok(result.stdout)
    reason = shortened(text_field(printed, "reason"))
    if good:
        return HandlerAnswer()
    return HandlerAnswer("deny", reason) if EVENTS[event].gate else HandlerAnswer(message=reason)
