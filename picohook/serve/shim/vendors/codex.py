"""Codex. Its JSON is strict: a field too many, and the answer does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....hooks.foreign.codex.events import EVENTS
from ..vendor import Entry, Fields, Vendor, entry_of
from .claude import group, stopped

if TYPE_CHECKING:
    from ....hooks.foreign.contract import Answer
    from ..vendor import Asked


def _group(event: str, entry: Entry, command: str, timeout: float) -> dict[str, Any]:
    """As Claude Code's, but Codex has no setting for failures."""
    made = group(event, entry, command, timeout)
    made["hooks"][0].pop("onFailure", None)
    return made


def _show(event: str, answer: Answer, _asked: Asked) -> dict[str, Any]:
    told: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    match event:
        case "PreToolUse" if answer.verdict:  # it has no continue: false before a tool
            inner |= {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        case "PreToolUse" if answer.input is not None:
            inner |= {"permissionDecision": "allow", "updatedInput": dict(answer.input)}
        case "PostToolUse" if answer.ends is not None:
            told |= {"continue": False, "stopReason": answer.ends, "decision": "block", "reason": answer.ends}
        case "PostToolUse" if answer.output is not None:
            told |= {"decision": "block", "reason": answer.output.strip() or "a hook removed the result"}
        case "UserPromptSubmit" | "Stop" | "SubagentStop" if answer.verdict == "deny":
            told |= stopped(event, answer)
    if answer.context and event in {"PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"}:
        inner["additionalContext"] = answer.context
    if answer.message:
        told["systemMessage"] = answer.message
    if inner:
        told["hookSpecificOutput"] = {"hookEventName": event, **inner}
    return told


CODEX = Vendor(
    title="Codex",
    user_file="~/.codex/hooks.json",
    project_file=".codex/hooks.json",
    home="CODEX_HOME",
    runs=("codex",),
    events={
        "PreToolUse": entry_of(EVENTS, "PreToolUse", "deny"),
        "PostToolUse": entry_of(EVENTS, "PostToolUse", "deny"),
        "UserPromptSubmit": entry_of(EVENTS, "UserPromptSubmit", "deny"),
        "Stop": entry_of(EVENTS, "Stop"),
        "SubagentStop": entry_of(EVENTS, "SubagentStop"),
        "PreCompact": entry_of(EVENTS, "PreCompact"),
        "PostCompact": entry_of(EVENTS, "PostCompact"),
        "SessionStart": Entry("session_start"),
        "SessionEnd": entry_of(EVENTS, "SessionEnd", longest=3.0),
        "Interrupt": entry_of(EVENTS, "Interrupt", longest=3.0),
    },
    entry=_group,
    show=_show,
    opens="Codex makes the call if Python cannot be started, or if the time-out passes: it has no setting for that. "
    "It runs the hooks of a project only after you trusted them in Codex.",
    fields=Fields(turn="turn_id"),
    asks=False,
)
