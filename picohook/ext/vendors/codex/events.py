"""Codex's events, as data. The table of docs/reference/dialects.md is made from it."""

from __future__ import annotations

from ..contract import Row

VERSION = "CLI 0.169.0 (November 2026)"

COMMON = (
    "session_id",
    "transcript_path",
    "cwd",
    "hook_event_name",
    "model",
    "turn_id",
    "permission_mode",
    "agent_id",
    "agent_type",
)
ANSWERS = ("continue", "stopReason", "systemMessage", "suppressOutput", "decision", "reason", "hookSpecificOutput")
UNSUPPORTED = {
    "transcript_path": "it is null: picohook keeps no transcript",
    "permission_mode": "it is always default: the agent around picohook has no such modes",
    "model": "it is empty where the stage does not say it",
    "additionalContextLimit": "it counts four characters for a token, and the rest is left out instead of written to a file",
    "commandWindows": "picohook runs on Unix",
    "statusMessage": "picohook shows no status",
    "state": "whether a handler was reviewed in Codex does not count: a project's file needs picohook's trust",
    "managed_dir": "managed requirements are not read",
}
RESERVED = ("updatedInput", "updatedPermissions", "interrupt")
"""The fields of a decision about permission that Codex reserves: with one of them, the answer is a no."""

_TOOL = ("tool_name", "tool_input", "tool_use_id")
_STOP = ("stop_hook_active", "last_assistant_message")
_PATCHES = {
    "tool_input": "calls that write or edit a file are shown as the patch that does the same, and cannot be changed",
}

EVENTS: dict[str, Row] = {
    "PreToolUse": Row(
        "before_tool",
        gate=True,
        matched="tool_name",
        reads=_TOOL,
        writes=("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"),
        blocks="the call is denied",
        unsupported=_PATCHES,
    ),
    "PermissionRequest": Row(
        "approve_tool",
        gate=True,
        matched="tool_name",
        reads=("tool_name", "tool_input"),
        writes=("decision",),
        blocks="the call is not approved",
        unsupported={
            "tool_input.description": "the agent does not say why it asks",
            **{f"decision.{name}": "Codex reserves it: it is a no" for name in RESERVED},
        },
    ),
    "PostToolUse": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "tool_response"),
        writes=("additionalContext",),
        blocks="the reason replaces the result",
    ),
    "SessionStart": Row("before_prompt", matched="source", once=True, reads=("source",), writes=("additionalContext",)),
    "UserPromptSubmit": Row(
        "before_prompt", gate=True, reads=("prompt",), writes=("additionalContext",), blocks="the turn ends"
    ),
    "SubagentStart": Row("before_prompt", matched="agent_type", writes=("additionalContext",)),
    "Stop": Row(
        "before_finish",
        reads=_STOP,
        blocks="the turn continues, with the reason as feedback; the ninth block in a row does not count, unlike in Codex",
    ),
    "SubagentStop": Row("before_finish", matched="agent_type", reads=_STOP, blocks="as at Stop"),
    "PreCompact": Row(
        "before_compact", matched="trigger", reads=("trigger",), unsupported={"continue": "it only observes"}
    ),
    "PostCompact": Row(
        "after_compact", matched="trigger", reads=("trigger",), unsupported={"continue": "it only observes"}
    ),
    "SessionEnd": Row(kind="session_end", reads=("reason",)),
    "Interrupt": Row(kind="interrupt_received"),
}
ENDS = frozenset({"PostToolUse", "UserPromptSubmit", "SessionStart", "Stop", "SubagentStop"})
"""The events at which `continue: false` ends the turn, or lets it end."""
