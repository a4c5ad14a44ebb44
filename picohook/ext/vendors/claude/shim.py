"""Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import PicohookError
from ..shim.vendor import HookEntry, VendorAgent, hook_entries, with_inner
from .events import EVENTS
from .tool_response import reshaped

if TYPE_CHECKING:
    from ..contract import HandlerAnswer
    from ..shim.vendor import AgentEvent

_BLOCKED_AT_TOP = frozenset({"UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"})


def group(_event: str, entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    """A group without a matcher, so that it gets all calls."""
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
            raise PicohookError("a hook changed the error of this tool, and the agent cannot change errors")
        inner["updatedToolOutput"] = reshaped(
            str(agent_event.given["tool_name"]), agent_event.given.get("tool_response"), answer.output
        )
    if answer.context and event not in {"Stop", "SubagentStop", "PreCompact"}:
        inner["additionalContext"] = answer.context
    return with_inner(event, answer, output, inner)


def stopped(event: str, answer: HandlerAnswer) -> dict[str, Any]:
    """The JSON of a block. At Stop a block would continue the turn, so an answer that ends the turn stops the agent instead."""
    if answer.ends is not None and event in {"Stop", "SubagentStop"}:
        return {"continue": False, "stopReason": answer.ends}
    return {"decision": "block", "reason": answer.reason}


AGENT = VendorAgent(
    title="Claude Code",
    user_file="~/.claude/settings.json",
    project_file=".claude/settings.json",
    home="CLAUDE_CONFIG_DIR",
    runs=("claude",),
    events=hook_entries(
        EVENTS,
        {
            "deny": ("PreToolUse", "UserPromptSubmit"),
            "stop": ("PostToolUse", "PostToolUseFailure"),
            "pass": ("Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionStart", "SessionEnd"),
        },
        SessionEnd=10.0,
    ),
    entry=group,
    show=show,
    opens="Versions before 2.1.295 do not know onFailure: they make the call if the time-out passes.",
)
