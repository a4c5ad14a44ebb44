"""Cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....protocol.codec import load
from ..shim.vendor import Fields, HookEntry, VendorAgent, hook_entries
from .events import EVENTS

if TYPE_CHECKING:
    from ..contract import HandlerAnswer
    from ..shim.vendor import AgentEvent


def _flat(_event: str, entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    closed = {"failClosed": True} if entry.on_failure != "pass" else {}
    return {"command": command, "timeout": timeout, **closed}


def _show(event: str, answer: HandlerAnswer, agent_event: AgentEvent) -> dict[str, Any]:
    output: dict[str, Any] = {}
    match event:
        case "preToolUse":
            if answer.verdict:
                output |= {"permission": "deny", "user_message": answer.reason, "agent_message": answer.reason}
            elif answer.input is not None:
                output |= {"permission": "allow", "updated_input": dict(answer.input)}
        case "beforeSubmitPrompt" if answer.verdict:
            output |= {"continue": False, "user_message": answer.reason}
        case "stop" | "subagentStop" if answer.verdict and answer.ends is None:
            output["followup_message"] = answer.reason
        case "postToolUse" if answer.output is not None and str(agent_event.given.get("tool_name", "")).startswith(
            "MCP:"
        ):
            output["updated_mcp_tool_output"] = _json_output(answer.output)
    if answer.context and event in {"postToolUse", "postToolUseFailure", "sessionStart"}:
        output["additional_context"] = answer.context
    return output


def _json_output(text: str) -> Any:
    """A tool's output as JSON: the JSON in the text, or a block with the text."""
    try:
        return load(text)
    except ValueError:
        return {"content": [{"type": "text", "text": text}]}


AGENT = VendorAgent(
    title="Cursor",
    user_file="~/.cursor/hooks.json",
    project_file=".cursor/hooks.json",
    runs=("cursor", "claude"),
    events=hook_entries(
        EVENTS,
        {
            "deny": ("preToolUse", "postToolUse", "beforeSubmitPrompt"),
            "pass": ("postToolUseFailure", "stop", "subagentStop", "preCompact", "sessionStart", "sessionEnd"),
        },
    ),
    entry=_flat,
    show=_show,
    opens="Cursor denies a call if the client fails in any way. "
    "Only results of MCP tools can be changed. Tab completions ask no hook.",
    fields=Fields(
        session="conversation_id", turn="generation_id", output="tool_output", json_output=True, error="error_message"
    ),
    asks=False,  # it has the word, and does not enforce it
    file={"version": 1},
)
