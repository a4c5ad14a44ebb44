"""Gemini CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import PicohookError
from ..shim.vendor import Fields, HookEntry, VendorAgent, hook_entries, with_inner
from .events import EVENTS

if TYPE_CHECKING:
    from ..contract import HandlerAnswer
    from ..shim.vendor import AgentEvent

_DENIES = frozenset({"BeforeTool", "BeforeAgent", "AfterAgent"})


def _group(_event: str, _entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    """A group without a matcher. Its time-out is in milliseconds."""
    return {
        "hooks": [{"type": "command", "name": "picohook", "command": command, "timeout": round(timeout * 1000)}],
    }


def _show(event: str, answer: HandlerAnswer, agent_event: AgentEvent) -> dict[str, Any]:
    output: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    if answer.ends is not None:
        output |= {"continue": False, "stopReason": answer.ends}
    if answer.verdict and event in _DENIES and (answer.ends is None or event != "AfterAgent"):
        output |= {"decision": "deny", "reason": answer.reason}
    if answer.input is not None:
        if not (agent_event.given.get("tool_input") or {}).keys() <= answer.input.keys():
            raise PicohookError("a hook removed an argument, and Gemini CLI may keep it: let the hook deny the call")
        inner["tool_input"] = dict(answer.input)
    if event == "AfterTool" and (answer.output is not None or answer.ends is not None):
        output |= {"decision": "deny", "reason": answer.ends or answer.output or "a hook removed the result"}
    if answer.context and event in {"BeforeTool", "AfterTool", "BeforeAgent", "SessionStart"}:
        inner["additionalContext"] = answer.context
    return with_inner(event, answer, output, inner)


AGENT = VendorAgent(
    title="Gemini CLI",
    user_file="~/.gemini/settings.json",
    project_file=".gemini/settings.json",
    runs=("gemini",),
    events=hook_entries(
        EVENTS,
        {
            "deny": ("BeforeTool", "AfterTool", "BeforeAgent"),
            "pass": ("AfterAgent", "PreCompress", "SessionStart", "SessionEnd"),
        },
    ),
    entry=_group,
    show=_show,
    opens="Gemini CLI makes the call if the time-out passes. "
    "It runs the hooks of a project only in a folder that you trusted in Gemini CLI.",
    fields=Fields(texts=("llmContent", "returnDisplay"), response="prompt_response"),
    asks=False,  # with -p and an allowed tool it waits for a person for ever
)
