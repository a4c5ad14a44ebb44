"""GitHub Copilot's CLI and cloud agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....hooks.foreign.copilot.events import EVENTS
from ..vendor import Entry, Fields, Vendor, entry_of

if TYPE_CHECKING:
    from ....hooks.foreign.contract import Answer
    from ..vendor import Asked


def _flat(_event: str, _entry: Entry, command: str, timeout: float) -> dict[str, Any]:
    return {"type": "command", "bash": command, "timeoutSec": timeout}


def _show(event: str, answer: Answer, asked: Asked) -> dict[str, Any]:
    told: dict[str, Any] = {}
    match event:
        case "preToolUse":
            if answer.verdict:
                told |= {"permissionDecision": answer.verdict, "permissionDecisionReason": answer.reason}
            elif answer.input is not None:
                told |= {"permissionDecision": "allow", "modifiedArgs": dict(answer.input)}
        case "postToolUse" if answer.output is not None or answer.ends is not None:
            before = asked.given.get("toolResult")
            text = answer.ends or answer.output or ""
            told["modifiedResult"] = {**(before if isinstance(before, dict) else {}), "textResultForLlm": text}
        case "agentStop" | "subagentStop" if answer.verdict and answer.ends is None:
            told |= {"decision": "block", "reason": answer.reason}
    if answer.context and event in {"preToolUse", "postToolUse"}:
        told["additionalContext"] = answer.context
    return told


COPILOT = Vendor(
    title="GitHub Copilot",
    user_file="~/.copilot/hooks/picohook.json",
    project_file=".github/hooks/picohook.json",
    runs=("copilot", "claude"),
    events={
        "preToolUse": entry_of(EVENTS, "preToolUse", "deny"),
        "postToolUse": entry_of(EVENTS, "postToolUse"),
        "postToolUseFailure": entry_of(EVENTS, "postToolUseFailure"),
        "userPromptSubmitted": entry_of(EVENTS, "userPromptSubmitted"),
        "agentStop": entry_of(EVENTS, "agentStop"),
        "subagentStop": entry_of(EVENTS, "subagentStop"),
        "preCompact": entry_of(EVENTS, "preCompact"),
        "sessionStart": Entry("session_start"),
        "sessionEnd": entry_of(EVENTS, "sessionEnd"),
    },
    entry=_flat,
    show=_show,
    opens="Copilot denies a call if the client fails in any way, and makes it if the time-out passes. It refuses no prompt.",
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
