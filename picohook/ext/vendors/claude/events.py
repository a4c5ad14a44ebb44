"""Claude Code's events, as data. The table of docs/reference/dialects.md is made from it."""

from __future__ import annotations

from ..contract import Row

VERSION = "2.1.330 (November 2026)"

COMMON = (
    "session_id",
    "transcript_path",
    "cwd",
    "hook_event_name",
    "permission_mode",
    "prompt_id",
    "agent_id",
    "agent_type",
)
ANSWERS = ("continue", "stopReason", "systemMessage", "suppressOutput", "decision", "reason", "hookSpecificOutput")
UNSUPPORTED = {
    "transcript_path": "it is empty: picohook keeps no transcript",
    "permission_mode": "it is always default: the agent around picohook has no such modes",
    "effort": "picohook does not know it",
    "scratchpad_dir": "picohook has none",
    "suppressOutput": "it has no effect in Claude Code either",
    "statusMessage": "picohook shows no status",
    "once": "it has an effect only in a skill, as in Claude Code",
    "asyncRewake": "it does not wake the agent: its texts come with the next prompt",
    "rewakeMessage": "it has no effect, because the agent is not woken",
    "rewakeSummary": "it has no effect, because the agent is not woken",
    "enabledPlugins": "picohook does not search plugins: name their files",
    "allowManagedHooksOnly": "picohook does not read an administrator's policy",
    "${user_config.*}": "picohook has no user settings for plugins: such a handler cannot be run",
    "CLAUDE_PLUGIN_OPTION_*": "they are not set: picohook has no user settings for plugins",
    "CLAUDE_EFFORT": "it is not set: picohook does not know it",
    "CLAUDE_CODE_REMOTE": "it is not set: picohook does not know it",
}

_TOOL = ("tool_name", "tool_input", "tool_use_id")
_NO_ENV_FILE = {"CLAUDE_ENV_FILE": "the agent runs its tools itself, with an environment that picohook does not set"}
_STOP = ("stop_hook_active", "last_assistant_message", "background_tasks", "session_crons")
_NO_TASKS = {
    "background_tasks": "it is empty: picohook has no such tasks",
    "session_crons": "it is empty: picohook has no such tasks",
}

EVENTS: dict[str, Row] = {
    "PreToolUse": Row(
        "before_tool",
        gate=True,
        matched="tool_name",
        reads=_TOOL,
        writes=("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"),
        blocks="the call is denied",
        unsupported={"permissionDecision allow": "it replaces no approval: approvers are asked all the same"},
    ),
    "PermissionRequest": Row(
        "approve_tool",
        gate=True,
        matched="tool_name",
        reads=("tool_name", "tool_input", "permission_suggestions"),
        writes=("decision",),
        blocks="in strict, the call is not approved; in vendor, nothing",
        unsupported={
            "permission_suggestions": "it has one rule, for exactly this command or file, for the session",
            "decision.updatedInput": "a yes to another call than the one that runs is a no. PreToolUse can change calls",
            "decision.updatedPermissions": "one rule that allows more calls of this tool, in the session or the project, is a "
            "grant; others are named in the log, and count for nothing",
            "decision.interrupt": "an approval cannot end a turn: the call is denied",
        },
    ),
    "PostToolUse": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "tool_response", "duration_ms"),
        writes=("updatedToolOutput", "updatedMCPToolOutput", "additionalContext"),
        blocks="the reason is added to the result",
        unsupported={"classifierContext": "picohook has no classifier"},
    ),
    "PostToolUseFailure": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "error", "is_interrupt", "duration_ms"),
        writes=("additionalContext",),
        blocks="the reason is added to the error",
        unsupported={"is_interrupt": "it is always false"},
    ),
    "PostToolBatch": Row(
        "before_llm",
        gate=True,
        reads=("tool_calls",),
        writes=("additionalContext",),
        blocks="the turn ends",
    ),
    "SessionStart": Row(
        "before_prompt",
        matched="source",
        once=True,
        reads=("source",),
        writes=("additionalContext",),
        unsupported={
            "model": "picohook knows it only later",
            "session_title": "sessions have no titles",
            "initialUserMessage": "it is asked at the session's first prompt",
            "sessionTitle": "sessions have no titles",
            "watchPaths": "picohook watches no files for hooks",
            "reloadSkills": "picohook has no skills",
            **_NO_ENV_FILE,
        },
    ),
    "UserPromptSubmit": Row(
        "before_prompt",
        gate=True,
        reads=("prompt",),
        writes=("additionalContext",),
        blocks="the turn ends",
        unsupported={
            "sessionTitle": "sessions have no titles",
            "suppressOriginalPrompt": "picohook does not show the prompt of a refused turn",
        },
    ),
    "SubagentStart": Row(
        "before_prompt",
        matched="agent_type",
        writes=("additionalContext",),
    ),
    "Stop": Row(
        "before_finish",
        reads=_STOP,
        writes=("additionalContext",),
        blocks="the turn continues, with the reason as feedback; the ninth block in a row does not count",
        unsupported=_NO_TASKS,
    ),
    "SubagentStop": Row(
        "before_finish",
        matched="agent_type",
        reads=(*_STOP, "agent_transcript_path"),
        writes=("additionalContext",),
        blocks="as at Stop",
        unsupported={**_NO_TASKS, "agent_transcript_path": "it is empty: picohook keeps no transcript"},
    ),
    "PreCompact": Row(
        "before_compact",
        matched="trigger",
        reads=("trigger", "custom_instructions"),
        blocks="nothing is compacted",
        unsupported={"custom_instructions": "it is empty: only the agent compacts"},
    ),
    "PostCompact": Row(
        "after_compact",
        matched="trigger",
        reads=("trigger", "compact_summary"),
        unsupported={"compact_summary": "it is empty: picohook does not know which message is the summary"},
    ),
    "SessionEnd": Row(
        kind="session_end",
        matched="reason",
        reads=("reason",),
        unsupported={"reason": "it is always other"},
    ),
    "Setup": Row(why="it is for Claude Code's own --init and --maintenance"),
    "UserPromptExpansion": Row(gate=True, why="picohook has no slash commands"),
    "PermissionDenied": Row(why="picohook has no classifier that denies"),
    "MessageDisplay": Row(why="the agent shows its messages itself"),
    "Notification": Row(why="picohook has no event for it"),
    "TaskCreated": Row(gate=True, why="picohook has no task list"),
    "TaskCompleted": Row(gate=True, why="picohook has no task list"),
    "TeammateIdle": Row(gate=True, why="picohook has no teams"),
    "StopFailure": Row(why="picohook's errors do not have its kinds"),
    "InstructionsLoaded": Row(why="the agent loads its instructions itself"),
    "ConfigChange": Row(gate=True, why="picohook does not see the vendor's settings change"),
    "CwdChanged": Row(why="picohook does not see the agent's directory change"),
    "DirectoryAdded": Row(why="picohook has no working directories of an agent"),
    "FileChanged": Row(why="picohook watches no files for hooks"),
    "WorktreeCreate": Row(gate=True, why="the agent makes its worktrees itself"),
    "WorktreeRemove": Row(why="the agent removes its worktrees itself"),
    "Elicitation": Row(gate=True, why="only the proxy for MCP sees it, and has its own way to answer"),
    "ElicitationResult": Row(gate=True, why="only the proxy for MCP sees it"),
    "PreModelSwitch": Row(gate=True, why="the agent chooses its model itself"),
    "PostModelSwitch": Row(why="the agent chooses its model itself"),
}
