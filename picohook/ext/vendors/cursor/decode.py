"""Reads the answers of Cursor's handlers.

1. Exit code 2 is a denial, whatever the output says.
2. With exit code 0, the output is one JSON object, or nothing.
3. Everything else is a failure. In Cursor, a failure blocks only if the handler has `failClosed`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookError, HookReplyError
from ..contract import HandlerAnswer, shortened
from ..output import choice, ended, flag, read_object, read_ok, table, text_field
from .events import ALIASES, ANSWERS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..contract import Failures, HandlerResult, Rule

BLOCK = 2
_ENDS = frozenset({"stop", "subagentStop"})
_PERMISSIONS = frozenset({"allow", "deny", "ask"})


def decode(event: str, rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    """Returns the answer in a handler's result. A failure is a field of the answer. Strict counts more results as failures."""
    row = EVENTS[event]
    try:
        if result.failure is not None:
            raise result.failure
        if rule.kind == "prompt":
            return _of_prompt(event, result)
        answer = _of_process(event, result, failures)
    except HookError as error:
        return (
            HandlerAnswer("deny", str(error)) if rule.blocks_on_failure and row.gate else HandlerAnswer(failure=error)
        )
    return replace(answer, most_blocks=rule.most_blocks)


def _of_process(event: str, result: HandlerResult, failures: Failures) -> HandlerAnswer:
    strict = failures == "strict" and EVENTS[event].gate
    if result.exit_code == BLOCK and EVENTS[event].gate:
        try:
            printed = _of_json(event, read_object(result.stdout, strict=strict) or {}, failures)
        except HookReplyError:
            printed = HandlerAnswer()
        return HandlerAnswer("deny", printed.reason or shortened(result.stderr.strip()), message=printed.message)
    if result.exit_code:
        raise ended(result)
    answer = read_object(result.stdout, strict=strict)
    if answer is None and result.stdout.strip():
        raise HookReplyError("it printed text, and only a JSON object is an answer")
    return _of_json(event, answer or {}, failures)


def _of_json(event: str, answer: Mapping[str, Any], failures: Failures) -> HandlerAnswer:
    printed = {ALIASES.get(name, name): value for name, value in answer.items() if ALIASES.get(name) not in answer}
    row = EVENTS[event]
    verdict = choice(printed, "permission", _PERMISSIONS) if row.gate else ""
    goes_on = flag(printed, "continue")
    if event == "beforeSubmitPrompt":
        denies = goes_on is False or (verdict == "deny" and failures == "strict")
        verdict = "deny" if denies else ""
    elif row.gate and goes_on is False and not verdict and failures == "strict":
        verdict = "deny"
    if verdict == "ask" and event == "subagentStart":
        verdict = "deny"
    if verdict == "ask" and event == "preToolUse" and failures == "vendor":
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
