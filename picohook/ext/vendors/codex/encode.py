"""Builds what Codex's handlers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from ..tools import BEGIN_PATCH, ShownCall, shown_call
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts

PATCH = "apply_patch"
_PATCH_FIELDS = ("command", "patch", "input", "patch_text")


def encode(event: str, payload: Payload | Event, facts: Facts) -> HandlerInput | None:
    """Returns the handlers' input about a payload; None if the event does not happen with it."""
    call: ShownCall | None = None
    if isinstance(payload, Prompt) and EVENTS[event].stage != "before_prompt":
        return None
    if isinstance(payload, ToolCall):
        if isinstance(payload, ToolReturn) and payload.result.is_error:
            return None
        call = codex_call(payload.tool, payload.arguments, facts)
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
    in_subagent = bool(payload.meta.parent_turn_id)
    match payload:
        case ToolCall():
            assert call is not None
            fields: dict[str, Any] = {"tool_name": call.tool, "tool_input": call.input}
            if event != "PermissionRequest":
                fields["tool_use_id"] = payload.tool_call_id or ""
            return {**fields, "tool_response": payload.result.for_llm} if isinstance(payload, ToolReturn) else fields
        case Prompt():
            if in_subagent is not (event == "SubagentStart"):
                return None
            earlier = "resume" if payload.messages else "startup"
            return {"UserPromptSubmit": {"prompt": payload.prompt}, "SessionStart": {"source": earlier}}.get(event, {})
        case Finish():
            if in_subagent is not (event == "SubagentStop"):
                return None
            return {"stop_hook_active": facts.blocked, "last_assistant_message": text_of(payload.response)}
        case Compaction():
            return {"trigger": "auto"}
    if event == "Interrupt":
        return None if in_subagent else {}
    return {"reason": "other"}


def codex_call(tool: str, arguments: Mapping[str, Any], facts: Facts) -> ShownCall:
    """A call as Codex would make it: it edits files by patches only."""
    call = shown_call(tool, arguments, facts.cwd, facts.tools)
    if tool == PATCH:
        patches = {name: arguments[name] for name in _PATCH_FIELDS if name in arguments}
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
