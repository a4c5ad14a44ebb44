"""Gemini CLI's events, as data. The table of docs/reference/dialects.md is made from it."""

from __future__ import annotations

from ..contract import Row

VERSION = "0.61.0 (November 2026)"

COMMON = ("session_id", "transcript_path", "cwd", "hook_event_name", "timestamp")
ANSWERS = ("continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput")
UNSUPPORTED = {
    "transcript_path": "it is empty: picohook keeps no transcript",
    "suppressOutput": "picohook shows no output of hooks that it could hide",
    "hooksConfig.notifications": "picohook shows no notifications",
    "GEMINI_PLANS_DIR": "it is not set: picohook keeps no plans",
}
TOOLS = {
    "Bash": "run_shell_command",
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "replace",
    "Glob": "glob",
    "Grep": "grep_search",
    "WebFetch": "web_fetch",
    "WebSearch": "google_web_search",
    "TodoWrite": "write_todos",
}
"""Gemini CLI's own tools, by the names of the table of tools."""

_TOOL = ("tool_name", "tool_input", "mcp_context")
_MCP = {
    "mcp_context": "it has the names of the server and the tool, and not how the server is reached",
    "original_request_name": "no call follows another by `tailToolCallRequest`",
}

EVENTS: dict[str, Row] = {
    "BeforeTool": Row(
        "before_tool",
        gate=True,
        matched="tool_name",
        reads=_TOOL,
        writes=("tool_input",),
        blocks="the call is denied",
        unsupported={
            **_MCP,
            "decision allow": "it replaces no approval: approvers are asked all the same",
            "tool_input": "in strict it is merged into the arguments, as Gemini CLI's pages say; in vendor it replaces them, "
            "as in its program",
        },
    ),
    "AfterTool": Row(
        "after_tool",
        matched="tool_name",
        reads=(*_TOOL, "tool_response"),
        writes=("additionalContext",),
        blocks="the reason replaces the result",
        unsupported={
            **_MCP,
            "tailToolCallRequest": "picohook runs no tools of its own accord",
            "tool_response.returnDisplay": "it is the text for the model, if the result has none for the user",
        },
    ),
    "SessionStart": Row(
        "before_prompt",
        matched="source",
        once=True,
        reads=("source",),
        writes=("additionalContext",),
        unsupported={"source": "it is startup or resume: picohook does not see a history cleared"},
    ),
    "BeforeAgent": Row(
        "before_prompt",
        gate=True,
        reads=("prompt",),
        writes=("additionalContext",),
        blocks="the turn ends",
        unsupported={"continue": "whether the prompt stays in the history is the agent's own matter"},
    ),
    "AfterAgent": Row(
        "before_finish",
        reads=("prompt", "prompt_response", "stop_hook_active"),
        blocks=(
            "the turn continues, with the reason as feedback; the ninth block in a row does not count, unlike in Gemini CLI"
        ),
        unsupported={"clearContext": "the agent keeps its history itself"},
    ),
    "BeforeModel": Row(
        "before_llm",
        gate=True,
        reads=("llm_request",),
        writes=("llm_request", "llm_response"),
        blocks="the turn ends; with an `llm_response`, that is the answer",
        unsupported={
            "llm_request.toolConfig": "Gemini CLI itself neither sends it nor reads it",
            "llm_request.config": "it has the temperature, the most tokens, and top P and K, and other settings stay",
        },
    ),
    "BeforeToolSelection": Row(
        "before_llm",
        gate=True,
        reads=("llm_request",),
        writes=("toolConfig",),
        blocks="nothing, as in Gemini CLI; a failure ends the turn",
    ),
    "AfterModel": Row(
        "after_llm",
        gate=True,
        reads=("llm_request", "llm_response"),
        writes=("llm_response",),
        blocks="the answer is discarded, and the turn ends",
        unsupported={
            "llm_request": "it is empty where the agent does not say what it had asked",
            "llm_response": "it is the whole answer at once; its tool calls stay as they are",
            "llm_response.usageMetadata": "picohook does not know it",
        },
    ),
    "SessionEnd": Row(
        kind="session_end",
        matched="reason",
        reads=("reason",),
        unsupported={"reason": "it is always exit"},
    ),
    "PreCompress": Row(
        "before_compact", matched="trigger", reads=("trigger",), unsupported={"trigger": "it is always auto"}
    ),
    "Notification": Row(why="picohook has no event for it: approvers are asked at approve_tool"),
}
DECIDE = frozenset({"BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel"})
"""The events at which `decision` and `continue` count."""
LAST_DECIDES = frozenset({"BeforeModel", "AfterModel"})
"""The events at which Gemini CLI takes the decision of the handler that stands last in the file, whatever the others say."""
