"""Cursor's events, as data. The table of docs/reference/dialects.md is made from it."""

from __future__ import annotations

from ..contract import Row

VERSION = "2.x (summer 2026)"
CURSOR_VERSION = "2.0.0"
"""The version that handlers are told."""

COMMON = (
    "conversation_id",
    "generation_id",
    "model",
    "hook_event_name",
    "cursor_version",
    "workspace_roots",
    "user_email",
    "transcript_path",
)
ANSWERS = ("permission", "user_message", "agent_message", "continue")
ALIASES = {"userMessage": "user_message", "agentMessage": "agent_message", "followupMessage": "followup_message"}
"""Earlier names of fields, which handlers may still use in answers."""
UNSUPPORTED = {
    "model": "it is empty where the stage does not say it",
    "model_id": "it is not sent: picohook knows one name of a model",
    "model_params": "it is not sent: picohook does not know them",
    "cursor_version": f"it is always {CURSOR_VERSION}",
    "user_email": "it is null: picohook knows no user",
    "transcript_path": "it is null: picohook keeps no transcript",
    "continue": "it counts at beforeSubmitPrompt; elsewhere `permission` decides, and in strict a bare false is a denial",
    "CURSOR_USER_EMAIL": "it is not set: picohook knows no user",
    "CURSOR_TRANSCRIPT_PATH": "it is not set: picohook keeps no transcript",
    "CURSOR_CODE_REMOTE": "it is not set: picohook does not know it",
}
TOOLS = {"Bash": "Shell", "Edit": "Write", "Agent": "Task"}
"""Cursor's own tools with other names than those of the table of tools."""

_TOOL = ("tool_name", "tool_input", "tool_use_id", "cwd")
_SHELL = ("command", "duration", "sandbox")
_NO_SANDBOX = {"sandbox": "it is always false: the agent runs its commands itself"}
_NO_SERVER = {
    "url": "picohook does not know how a server is reached",
    "command": "picohook does not know how a server is reached",
}
_LOOP = "the turn continues, with `followup_message` as the user's next message, at most `loop_limit` times for each handler"

EVENTS: dict[str, Row] = {
    "preToolUse": Row(
        "before_tool",
        gate=True,
        matched="tool_name",
        reads=(*_TOOL, "agent_message"),
        writes=("updated_input",),
        blocks="the call is denied",
        unsupported={
            "agent_message": "it is empty: the stage does not say it",
            "permission allow": "it replaces no approval: approvers are asked all the same",
            "permission ask": "in vendor it does nothing, as in Cursor",
        },
    ),
    "beforeShellExecution": Row(
        "before_tool",
        gate=True,
        matched="command",
        reads=("command", "cwd", "sandbox"),
        blocks="the call is denied",
        unsupported=_NO_SANDBOX,
    ),
    "beforeMCPExecution": Row(
        "before_tool",
        gate=True,
        matched="tool_name",
        reads=("tool_name", "tool_input"),
        blocks="the call is denied",
        unsupported=_NO_SERVER,
    ),
    "beforeReadFile": Row(
        "before_tool",
        gate=True,
        matched="Read",
        reads=("file_path", "content", "attachments"),
        blocks="the call is denied",
        unsupported={
            "content": "it is empty for a file that is not on picohook's machine",
            "attachments": "it is empty: the prompt's attachments are the agent's own matter",
        },
    ),
    "postToolUse": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "tool_output", "duration"),
        writes=("updated_mcp_tool_output", "additional_context"),
        unsupported={"updated_mcp_tool_output": "it counts for tools of servers only, as in Cursor"},
    ),
    "postToolUseFailure": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "error_message", "failure_type", "duration", "is_interrupt"),
        unsupported={
            "failure_type": "it is always error; calls that are denied have no such event",
            "is_interrupt": "it is always false",
        },
    ),
    "afterShellExecution": Row("after_tool", matched="command", reads=(*_SHELL, "output"), unsupported=_NO_SANDBOX),
    "afterMCPExecution": Row(
        "after_tool",
        matched="tool_name",
        reads=("tool_name", "tool_input", "result_json", "duration"),
        unsupported=_NO_SERVER,
    ),
    "afterFileEdit": Row("after_tool", matched="Write", reads=("file_path", "edits")),
    "sessionStart": Row(
        "before_prompt",
        once=True,
        reads=("session_id", "is_background_agent", "composer_mode"),
        writes=("env", "additional_context"),
        unsupported={
            "env": "it holds for the later handlers of the same file, and not for those of others",
            "is_background_agent": "it is always false",
            "composer_mode": "it is always agent",
        },
    ),
    "beforeSubmitPrompt": Row(
        "before_prompt",
        gate=True,
        matched="UserPromptSubmit",
        reads=("prompt", "attachments"),
        blocks="the turn ends",
        unsupported={"attachments": "it is empty"},
    ),
    "subagentStart": Row(
        "before_prompt",
        gate=True,
        matched="subagent_type",
        reads=("subagent_id", "subagent_type", "task", "parent_conversation_id", "tool_call_id", "is_parallel_worker"),
        blocks="the subagent's turn ends; an ask is a denial",
        unsupported={
            "tool_call_id": "it is empty: picohook does not know which call it is",
            "subagent_model": "it is not sent: picohook knows it only later",
            "is_parallel_worker": "it is always false",
            "git_branch": "it is not sent: picohook does not look at repositories",
        },
    ),
    "afterAgentResponse": Row("after_llm", matched="AgentResponse", reads=("text",)),
    "stop": Row(
        "before_finish",
        matched="Stop",
        reads=("status", "loop_count"),
        writes=("followup_message",),
        blocks=_LOOP,
        unsupported={"status": "it is always completed"},
    ),
    "subagentStop": Row(
        "before_finish",
        matched="subagent_type",
        reads=("subagent_type", "status", "task", "summary", "message_count", "loop_count", "agent_transcript_path"),
        writes=("followup_message",),
        blocks="as at stop",
        unsupported={
            "status": "it is always completed",
            "agent_transcript_path": "it is null",
            **dict.fromkeys(
                ("description", "duration_ms", "tool_call_count", "modified_files"),
                "it is not sent: picohook does not know it",
            ),
        },
    ),
    "preCompact": Row(
        "before_compact",
        reads=("trigger", "message_count"),
        unsupported={
            "trigger": "it is always auto",
            **dict.fromkeys(
                (
                    "context_usage_percent",
                    "context_tokens",
                    "context_window_size",
                    "messages_to_compact",
                    "is_first_compaction",
                ),
                "it is not sent: picohook does not know it",
            ),
        },
    ),
    "sessionEnd": Row(
        kind="session_end",
        reads=("session_id", "reason", "is_background_agent", "final_status"),
        unsupported={
            "reason": "it is always completed",
            "duration_ms": "it is not sent: picohook does not know it",
            "error_message": "it is not sent",
        },
    ),
    "afterAgentThought": Row(why="a model's thoughts have no common form"),
    "beforeTabFileRead": Row(gate=True, why="picohook completes no text in an editor"),
    "afterTabFileEdit": Row(why="picohook completes no text in an editor"),
    "workspaceOpen": Row(why="picohook opens no workspaces"),
}
