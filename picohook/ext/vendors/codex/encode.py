"""Builds what Codex's handlers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from ..tools import BEGIN_PATCH, ShownCall
from .events import EVENTS

if TYPE_CHECKING:
    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts

PATCH = "apply_patch"
_PATCH_FIELDS = ("command", "patch", "input", "patch_text")


def tell(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> HandlerInput | None:
    """Returns the handlers' input about a payload; None if the event does not happen with it."""
    fields = _fields(event, payload, call, facts)
    return None if fields is None else HandlerInput({**_common(event, payload, facts), **fields}, call)


def _common(event: str, payload: Payload | Event, facts: Facts) -> dict[str, Any]:
    meta = payload.meta
    common = {
        "session_id": meta.session_key or facts.session,
        "transcript_path": None,
        "cwd": facts.cwd,
        "hook_event_name": event,
        "model": getattr(payload, "model", None) or "",
        "permission_mode": "default",
    }
    if EVENTS[event].stage:
        common["turn_id"] = meta.turn_id
    if meta.parent_turn_id:
        common |= {"agent_id": meta.turn_id, "agent_type": meta.agent_id}
    return common


def _fields(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> dict[str, Any] | None:
    """The event's own fields."""
    match payload:
        case ToolCall():
            assert call is not None
            fields: dict[str, Any] = {"tool_name": call.tool, "tool_input": call.input}
            if event != "PermissionRequest":
                fields["tool_use_id"] = payload.tool_call_id or ""
            return {**fields, "tool_response": payload.result.for_llm} if isinstance(payload, ToolReturn) else fields
        case Prompt():
            earlier = "resume" if payload.messages else "startup"
            return {"UserPromptSubmit": {"prompt": payload.prompt}, "SessionStart": {"source": earlier}}.get(event, {})
        case Finish():
            return {"stop_hook_active": facts.blocked, "last_assistant_message": text_of(payload.response)}
        case Compaction():
            return {"trigger": "auto"}
    if event == "Interrupt":
        return None if payload.meta.parent_turn_id else {}
    return {"reason": "other"}


def codex_call(call: ShownCall, tool: str) -> ShownCall:
    """A call as Codex would make it: it edits files by patches only."""
    if tool == PATCH:
        patches = {name: call.given[name] for name in _PATCH_FIELDS if name in call.given}
        if not patches:
            return call
        own, text = next(iter(patches.items()))
        unclear = (
            "" if all(other == text for other in patches.values()) else " and ".join(f"`{one}`" for one in patches)
        )
        return call._replace(tool=PATCH, input={"command": text}, fields={"command": own}, unclear=unclear)
    if call.tool in {"Edit", "Write"}:
        return call._replace(tool=PATCH, input={"command": patch(call)}, fields={})
    return call._replace(tool="spawn_agent") if call.tool == "Agent" else call


def patch(call: ShownCall) -> str:
    """Returns the patch with the same effect as a call that writes or edits a file."""
    path = call.input.get("file_path", "")
    if call.tool == "Write":
        lines = [f"*** Add File: {path}", *_lines("+", call.input.get("content"))]
    else:
        changes = [*_lines("-", call.input.get("old_string")), *_lines("+", call.input.get("new_string"))]
        lines = [f"*** Update File: {path}", "@@", *changes]
    return "\n".join([BEGIN_PATCH, *lines, "*** End Patch"])


def _lines(mark: str, text: Any) -> list[str]:
    return [mark + line for line in str(text).splitlines()] if text else []
