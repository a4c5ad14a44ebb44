"""Cursor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..vendor import Entry, Fields, Vendor

if TYPE_CHECKING:
    from ....hooks.foreign.contract import Answer
    from ..vendor import Asked


def _flat(_event: str, entry: Entry, command: str, timeout: float) -> dict[str, Any]:
    closed = {"failClosed": True} if entry.on_failure != "pass" else {}
    return {"command": command, "timeout": timeout, **closed}


def _show(event: str, answer: Answer, asked: Asked) -> dict[str, Any]:
    told: dict[str, Any] = {}
    match event:
        case "preToolUse":
            if answer.verdict:  # it does not enforce `ask`
                told |= {"permission": "deny", "user_message": answer.reason, "agent_message": answer.reason}
            elif answer.input is not None:
                told |= {"permission": "allow", "updated_input": dict(answer.input)}
        case "beforeSubmitPrompt" if answer.verdict:
            told |= {"continue": False, "user_message": answer.reason}
        case "stop" | "subagentStop" if answer.verdict and answer.ends is None:
            told["followup_message"] = answer.reason
        case "postToolUse" if answer.output is not None and str(asked.given.get("tool_name", "")).startswith("MCP:"):
            told["updated_mcp_tool_output"] = _as_given(asked.given.get("tool_output"), answer.output)
    if answer.context and event in {"postToolUse", "postToolUseFailure", "sessionStart"}:
        told["additional_context"] = answer.context
    return told


def _as_given(output: Any, text: str) -> Any:
    """The text as JSON, which is the form of the output of a tool, if it is JSON; otherwise as a text."""
    del output
    try:
        return json.loads(text)
    except ValueError:
        return {"content": [{"type": "text", "text": text}]}


CURSOR = Vendor(
    title="Cursor",
    user_file="~/.cursor/hooks.json",
    project_file=".cursor/hooks.json",
    runs=("cursor", "claude"),
    events={
        "preToolUse": Entry("before_tool", "deny"),
        "postToolUse": Entry("after_tool", "deny"),
        "postToolUseFailure": Entry("after_tool", failed=True),
        "beforeSubmitPrompt": Entry("before_prompt", "deny"),
        "stop": Entry("before_finish"),
        "subagentStop": Entry("before_finish"),
        "preCompact": Entry("before_compact"),
        "sessionStart": Entry("session_start"),
        "sessionEnd": Entry("session_end"),
    },
    entry=_flat,
    show=_show,
    opens="Cursor denies a call if the client fails in any way. "
    "Only results of MCP tools can be changed. Tab completions ask nobody.",
    fields=Fields(
        session="conversation_id", turn="generation_id", output="tool_output", error="error_message", response="text"
    ),
    file={"version": 1},
)
