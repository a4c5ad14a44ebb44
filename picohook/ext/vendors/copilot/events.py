"""Copilot's events, as data. The table of docs/reference/dialects.md is made from it.

Most events have two names. With the first, in camelCase, handlers read Copilot's own fields and tools. With the second, in
PascalCase, they read fields in snake_case, and the names that Claude Code has for tools.
"""

from __future__ import annotations

import re

from ..contract import Row

VERSION = "CLI 1.0.102 (November 2026)"

COMMON = ("sessionId", "timestamp", "cwd")
ANSWERS: tuple[str, ...] = ()
UNSUPPORTED = {
    "transcriptPath": "it is empty: picohook keeps no transcript",
    "hookSpecificOutput": "its fields count at the events in PascalCase: `modifiedArgs` beside it, and `updatedInput` in it",
    "modifiedArgs": "of two handlers that change a call, the last one counts; each reads the call as it was",
    "powershell": "picohook runs on Unix: a handler with this command alone cannot be run",
    "COPILOT_HOME": "picohook does not read it: the user's own files are those in ~/.copilot",
    "policy.d": "policies of the machine are not looked for: name them in [[foreign]]",
}

PASCAL = {"agentStop": "Stop", "userPromptSubmitted": "UserPromptSubmit"}
"""The PascalCase names that are not the same word."""
SNAKE = {"toolArgs": "tool_input", "response": "last_assistant_message", "stop_hook_active": "stop_hook_active"}
"""The names of fields in PascalCase events that are not the same word."""

_TOOL = ("toolName", "toolArgs")
_STOP = ("transcriptPath", "stopReason")
_AS_CLAUDE = {"tool_name": "it is Claude Code's name for the tool, at all events"}
_FIELDS = {"tool_input": "it has the fields of Copilot's tools, such as path and file_text"}

_ROWS: dict[str, Row] = {
    "sessionStart": Row("before_prompt", once=True, reads=("source", "initialPrompt"), writes=("additionalContext",)),
    "sessionEnd": Row(kind="session_end", reads=("reason",), unsupported={"reason": "it is always complete"}),
    "userPromptSubmitted": Row(
        "before_prompt",
        gate=True,
        reads=("prompt",),
        writes=("decision", "reason"),
        blocks="the turn ends",
        unsupported={"modifiedPrompt": "Copilot itself ignores it in files"},
    ),
    "userPromptTransformed": Row(
        "before_prompt", reads=("prompt", "transformedPrompt"), writes=("modifiedTransformedPrompt",)
    ),
    "preToolUse": Row(
        "before_tool",
        gate=True,
        matched="toolName",
        reads=_TOOL,
        writes=("permissionDecision", "permissionDecisionReason", "modifiedArgs", "updatedInput", "additionalContext"),
        blocks="the call is denied",
        unsupported={"permissionDecision allow": "it replaces no approval: approvers are asked all the same"},
    ),
    "postToolUse": Row(
        "after_tool",
        matched="toolName",
        reads=(*_TOOL, "toolResult"),
        writes=("modifiedResult", "additionalContext"),
        unsupported={"modifiedResult.resultType": "a failure replaces the text, and the call stays a success"},
    ),
    "postToolUseFailure": Row("after_tool", matched="toolName", reads=(*_TOOL, "error"), writes=("additionalContext",)),
    "permissionRequest": Row(
        "approve_tool",
        gate=True,
        matched="toolName",
        reads=("toolName", "toolInput"),
        writes=("behavior", "message", "interrupt"),
        blocks="the call is not approved",
        unsupported={"interrupt": "an approval cannot end a turn: the call is denied"},
    ),
    "agentStop": Row(
        "before_finish",
        reads=(*_STOP, "stop_hook_active"),
        writes=("decision", "reason"),
        blocks="the turn continues, with the reason as feedback; the ninth block in a row does not count",
    ),
    "subagentStart": Row(
        "before_prompt",
        matched="agentName",
        reads=("transcriptPath", "agentName"),
        writes=("additionalContext",),
        unsupported={
            "agentDisplayName": "picohook does not know it",
            "agentDescription": "picohook does not know it",
        },
    ),
    "subagentStop": Row(
        "before_finish",
        reads=(*_STOP, "agentId", "agentType", "agentName", "response"),
        writes=("decision", "reason"),
        blocks="as at agentStop",
        unsupported={
            "agentDisplayName": "picohook does not know it",
            "modifiedResponse": "a hook cannot change what a turn has answered",
        },
    ),
    "errorOccurred": Row(
        kind="error",
        reads=("error", "errorContext", "recoverable"),
        unsupported={"error.stack": "picohook has none", "recoverable": "it is always false"},
    ),
    "preCompact": Row(
        "before_compact",
        matched="trigger",
        reads=("transcriptPath", "trigger", "customInstructions"),
        unsupported={"trigger": "it is always auto", "customInstructions": "it is empty: only the agent compacts"},
    ),
    "notification": Row(why="picohook has no event for it: approvers are asked at approve_tool"),
}


def snake(field: str) -> str:
    """The name of a field in PascalCase events."""
    return SNAKE.get(field) or re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", field)


def _in_pascal(event: str, row: Row) -> Row:
    about_tool = "toolName" in row.reads
    named = {} if event in {"preToolUse", "permissionRequest"} else _AS_CLAUDE
    also = {**named, **_FIELDS} if about_tool else {}
    return row._replace(
        matched=snake(row.matched) if row.matched else "",
        reads=("hook_event_name", *map(snake, row.reads)) if row.supported else (),
        unsupported={snake(name) if name in row.reads else name: why for name, why in row.unsupported.items()} | also,
    )


BASE: dict[str, str] = {
    name: event
    for event in _ROWS
    for name in (
        event,
        *(() if event == "userPromptTransformed" else (PASCAL.get(event, event[0].upper() + event[1:]),)),
    )
}
"""For both names of each event, the one in camelCase."""


def is_pascal(event: str) -> bool:
    """Whether this is the PascalCase name of an event."""
    return BASE[event] != event


EVENTS: dict[str, Row] = {
    name: _ROWS[event] if name == event else _in_pascal(event, _ROWS[event]) for name, event in BASE.items()
}

RUNTIME = {
    "Bash": ("bash", {}),
    "Read": ("view", {"file_path": "path"}),
    "Write": ("create", {"file_path": "path", "content": "file_text"}),
    "Edit": ("edit", {"file_path": "path", "old_string": "old_str", "new_string": "new_str"}),
    "Grep": ("grep", {}),
    "Glob": ("glob", {}),
    "WebFetch": ("web_fetch", {}),
    "WebSearch": ("web_search", {}),
    "Agent": ("task", {}),
    "TodoWrite": ("update_todo", {}),
}
"""Copilot's names for the tools of the common table and for their fields."""
CLAUDE_NAMES = {
    **{runtime: tool for tool, (runtime, _) in RUNTIME.items()},
    "powershell": "Bash",
    "str_replace_editor": "Edit",
    "apply_patch": "Edit",
    "rg": "Grep",
    "ask_user": "AskUserQuestion",
}
"""Claude Code's names for Copilot's tools, which events in PascalCase have."""
