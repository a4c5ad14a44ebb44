"""Gemini CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import PicohookError
from ....hooks.foreign.gemini.events import EVENTS
from ..vendor import Entry, Fields, Vendor, entry_of

if TYPE_CHECKING:
    from ....hooks.foreign.contract import Answer
    from ..vendor import Asked

_DENIES = frozenset({"BeforeTool", "BeforeAgent", "AfterAgent"})


def _group(_event: str, _entry: Entry, command: str, timeout: float) -> dict[str, Any]:
    """A group without a matcher. Its time-out is in milliseconds."""
    return {
        "hooks": [{"type": "command", "name": "picohook", "command": command, "timeout": round(timeout * 1000)}],
    }


def _show(event: str, answer: Answer, asked: Asked) -> dict[str, Any]:
    told: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    if answer.ends is not None:
        told |= {"continue": False, "stopReason": answer.ends}
    if answer.verdict and event in _DENIES and (answer.ends is None or event != "AfterAgent"):
        told |= {"decision": "ask" if answer.verdict == "ask" else "deny", "reason": answer.reason}
    if answer.input is not None:
        if not (asked.given.get("tool_input") or {}).keys() <= answer.input.keys():
            raise PicohookError("a hook removed an argument, and Gemini CLI may keep it: let the hook deny the call")
        inner["tool_input"] = dict(answer.input)
    if event == "AfterTool" and (answer.output is not None or answer.ends is not None):
        told |= {"decision": "deny", "reason": answer.ends or answer.output or "a hook removed the result"}
    if answer.context and event in {"BeforeTool", "AfterTool", "BeforeAgent", "SessionStart"}:
        inner["additionalContext"] = answer.context
    if answer.message:
        told["systemMessage"] = answer.message
    if inner:
        told["hookSpecificOutput"] = {"hookEventName": event, **inner}
    return told


GEMINI = Vendor(
    title="Gemini CLI",
    user_file="~/.gemini/settings.json",
    project_file=".gemini/settings.json",
    runs=("gemini",),
    events={
        "BeforeTool": entry_of(EVENTS, "BeforeTool", "deny"),
        "AfterTool": entry_of(EVENTS, "AfterTool", "deny"),
        "BeforeAgent": entry_of(EVENTS, "BeforeAgent", "deny"),
        "AfterAgent": entry_of(EVENTS, "AfterAgent"),
        "PreCompress": entry_of(EVENTS, "PreCompress"),
        "SessionStart": Entry("session_start"),
        "SessionEnd": entry_of(EVENTS, "SessionEnd"),
    },
    entry=_group,
    show=_show,
    opens="Gemini CLI makes the call if the time-out passes. A Python that cannot be started is a denial. "
    "It runs the hooks of a project only in a folder that you trusted in Gemini CLI.",
    fields=Fields(texts=("llmContent", "returnDisplay"), response="prompt_response"),
)
