"""Claude Code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....errors import PicohookError
from ....hooks.foreign.claude.events import EVENTS
from ..vendor import HookEntry, VendorAgent, hook_entry

if TYPE_CHECKING:
    from ....hooks.foreign.contract import HandlerAnswer
    from ..vendor import AgentEvent

_BLOCKED_AT_TOP = frozenset({"UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"})


def group(_event: str, entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    """A group without a matcher, which gets all calls."""
    handler: dict[str, Any] = {"type": "command", "command": command, "timeout": timeout}
    if entry.on_failure != "pass":
        handler["onFailure"] = "block"
    return {"hooks": [handler]}


def show(event: str, answer: HandlerAnswer, agent_event: AgentEvent) -> dict[str, Any]:
    """The JSON of an answer."""
    output: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    if answer.ends is not None and event not in _BLOCKED_AT_TOP:
        output |= {"continue": False, "stopReason": answer.ends}
    if event == "PreToolUse":
        if answer.verdict:
            inner |= {"permissionDecision": answer.verdict, "permissionDecisionReason": answer.reason}
        if answer.input is not None:
            inner["updatedInput"] = dict(answer.input)
    elif answer.verdict == "deny" and event in _BLOCKED_AT_TOP:
        output |= stopped(event, answer)
    if answer.output is not None:
        if event == "PostToolUseFailure":
            raise PicohookError("a hook changed the error of this tool, and the agent takes no other error")
        inner["updatedToolOutput"] = reshaped(agent_event.given.get("tool_response"), answer.output)
    if answer.context and event not in {"Stop", "SubagentStop", "PreCompact"}:
        inner["additionalContext"] = answer.context
    if answer.message:
        output["systemMessage"] = answer.message
    if inner:
        output["hookSpecificOutput"] = {"hookEventName": event, **inner}
    return output


def stopped(event: str, answer: HandlerAnswer) -> dict[str, Any]:
    """A block. Where a block would make the turn go on, an answer that ends the turn stops the agent."""
    if answer.ends is not None and event in {"Stop", "SubagentStop"}:
        return {"continue": False, "stopReason": answer.ends}
    return {"decision": "block", "reason": answer.reason}


def reshaped(response: Any, text: str) -> Any:
    """A tool's response with another text. Raises `PicohookError` if the text cannot be a response of this tool."""
    match response:
        case str():
            return text
        case [*blocks] if blocks and all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            return [{"type": "text", "text": text}]
        case {"stdout": str(), "stderr": str()}:
            return {**response, "stdout": text, "stderr": ""}
        case {"file": {"content": str()}}:
            return {**response, "file": {**response["file"], "content": text}}
        case {"content": str()}:
            return {**response, "content": text}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if type(value) is not type(response) or (isinstance(value, dict) and value.keys() != response.keys()):
        raise PicohookError("a hook changed the result of this tool to a form that the tool does not return")
    return value


CLAUDE = VendorAgent(
    title="Claude Code",
    user_file="~/.claude/settings.json",
    project_file=".claude/settings.json",
    home="CLAUDE_CONFIG_DIR",
    runs=("claude",),
    events={
        "PreToolUse": hook_entry(EVENTS, "PreToolUse", "deny"),
        "PostToolUse": hook_entry(EVENTS, "PostToolUse", "stop"),
        "PostToolUseFailure": hook_entry(EVENTS, "PostToolUseFailure", "stop"),
        "UserPromptSubmit": hook_entry(EVENTS, "UserPromptSubmit", "deny"),
        "Stop": hook_entry(EVENTS, "Stop"),
        "SubagentStop": hook_entry(EVENTS, "SubagentStop"),
        "PreCompact": hook_entry(EVENTS, "PreCompact"),
        "PostCompact": hook_entry(EVENTS, "PostCompact"),
        "SessionStart": HookEntry("session_start"),
        "SessionEnd": hook_entry(EVENTS, "SessionEnd", longest=10.0),
    },
    entry=group,
    show=show,
    opens="Before version 2.1.295 it knows no onFailure: if Python cannot start, or the time-out passes, it makes the call.",
)
