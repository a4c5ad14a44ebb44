"""GitHub Copilot's CLI and cloud agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..shim.vendor import Fields, HookEntry, VendorAgent, hook_entries
from .events import EVENTS

if TYPE_CHECKING:
    from ..contract import HandlerAnswer
    from ..shim.vendor import AgentEvent


def _flat(_event: str, _entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    return {"type": "command", "bash": command, "timeoutSec": timeout}


def _show(event: str, answer: HandlerAnswer, agent_event: AgentEvent) -> dict[str, Any]:
    output: dict[str, Any] = {}
    match event:
        case "preToolUse":
            if answer.verdict:
                output |= {"permissionDecision": answer.verdict, "permissionDecisionReason": answer.reason}
            elif answer.input is not None:
                output |= {"permissionDecision": "allow", "modifiedArgs": dict(answer.input)}
        case "userPromptSubmitted" if answer.verdict:
            output |= {"decision": "block", "reason": answer.reason}
        case "postToolUse" if answer.output is not None or answer.ends is not None:
            before = agent_event.given.get("toolResult")
            text = answer.ends or answer.output or ""
            output["modifiedResult"] = {**(before if isinstance(before, dict) else {}), "textResultForLlm": text}
        case "agentStop" | "subagentStop" if answer.verdict and answer.ends is None:
            output |= {"decision": "block", "reason": answer.reason}
    if answer.context and event in {"preToolUse", "postToolUse"}:
        output["additionalContext"] = answer.context
    return output


AGENT = VendorAgent(
    title="GitHub Copilot",
    user_file="~/.copilot/hooks/picohook.json",
    project_file=".github/hooks/picohook.json",
    runs=("copilot", "claude"),
    events=hook_entries(
        EVENTS,
        {
            "deny": ("preToolUse",),
            "stop": ("userPromptSubmitted",),
            "pass": (
                "postToolUse",
                "postToolUseFailure",
                "agentStop",
                "subagentStop",
                "preCompact",
                "sessionStart",
                "sessionEnd",
            ),
        },
    ),
    entry=_flat,
    show=_show,
    opens="Copilot denies a call if the client fails in any way, and makes it if the time-out passes. "
    "It takes a prompt if the client cannot be started.",
    fields=Fields(
        session="sessionId",
        turn="turnId",
        tool="toolName",
        input="toolArgs",
        call_id="toolCallId",
        output="toolResult",
        texts=("textResultForLlm",),
        response="response",
    ),
    asks_about_changed=False,
    file={"version": 1},
)
