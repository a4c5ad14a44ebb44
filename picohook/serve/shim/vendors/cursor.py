"""Cursor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....hooks.foreign.cursor.events import EVENTS
from ..vendor import Entry, Fields, Vendor, entry_of

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
            if answer.verdict:
                told |= {"permission": "deny", "user_message": answer.reason, "agent_message": answer.reason}
            elif answer.input is not None:
                told |= {"permission": "allow", "updated_input": dict(answer.input)}
        case "beforeSubmitPrompt" if answer.verdict:
            told |= {"continue": False, "user_message": answer.reason}
        case "stop" | "subagentStop" if answer.verdict and answer.ends is None:
            told["followup_message"] = answer.reason
        case "postToolUse" if answer.output is not None and str(asked.given.get("tool_name", "")).startswith("MCP:"):
            told["updated_mcp_tool_output"] = _json_output(answer.output)
    if answer.context and event in {"postToolUse", "postToolUseFailure", "sessionStart"}:
        told["additional_context"] = answer.context
    return told


def _json_output(text: str) -> Any:
    """A tool's output, which is JSON: that in the text, or a block with the text."""
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
        "preToolUse": entry_of(EVENTS, "preToolUse", "deny"),
        "postToolUse": entry_of(EVENTS, "postToolUse", "deny"),
        "postToolUseFailure": entry_of(EVENTS, "postToolUseFailure"),
        "beforeSubmitPrompt": entry_of(EVENTS, "beforeSubmitPrompt", "deny"),
        "stop": entry_of(EVENTS, "stop"),
        "subagentStop": entry_of(EVENTS, "subagentStop"),
        "preCompact": entry_of(EVENTS, "preCompact"),
        "sessionStart": Entry("session_start"),
        "sessionEnd": entry_of(EVENTS, "sessionEnd"),
    },
    entry=_flat,
    show=_show,
    opens="Cursor denies a call if the client fails in any way. "
    "Only results of MCP tools can be changed. Tab completions ask nobody.",
    fields=Fields(
        session="conversation_id", turn="generation_id", output="tool_output", json_output=True, error="error_message"
    ),
    asks=False,  # it has the word, and does not enforce it
    file={"version": 1},
)
