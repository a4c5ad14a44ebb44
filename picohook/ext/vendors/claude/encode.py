"""Builds what Claude Code's handlers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.conversation import calls_of, text_of
from ....model.payloads import Compaction, Finish, LLMRequest, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from ..tools import shown_call
from .permissions import suggested
from .tool_response import response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts
    from ..tools import ShownCall


def tell(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> HandlerInput | None:
    """Returns the handlers' input about a payload; None if the event does not happen with it."""
    fields = _fields(event, payload, call, facts)
    return None if fields is None else HandlerInput({**_common(event, payload, facts), **fields}, call)


def _common(event: str, payload: Payload | Event, facts: Facts) -> dict[str, Any]:
    meta = payload.meta
    common = {
        "session_id": meta.session_key or facts.session,
        "transcript_path": "",
        "cwd": facts.cwd,
        "permission_mode": "default",
        "hook_event_name": event,
    }
    if meta.turn_id:
        common["prompt_id"] = meta.turn_id
    if meta.parent_turn_id:
        common |= {"agent_id": meta.turn_id, "agent_type": meta.agent_id}
    return common


def _fields(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> dict[str, Any] | None:
    """The event's own fields."""
    match payload:
        case ToolCall():
            assert call is not None
            return _of_call(event, payload, call)
        case Prompt():
            earlier = "resume" if payload.messages else "startup"
            return {"UserPromptSubmit": {"prompt": payload.prompt}, "SessionStart": {"source": earlier}}.get(event, {})
        case Finish():
            fields = {
                "stop_hook_active": facts.blocked,
                "last_assistant_message": text_of(payload.response),
                "background_tasks": [],
                "session_crons": [],
            }
            return {**fields, "agent_transcript_path": ""} if event == "SubagentStop" else fields
        case LLMRequest():
            calls = batch(payload.messages, facts)
            return {"tool_calls": calls} if calls else None
        case Compaction():
            more = {"custom_instructions": ""} if event == "PreCompact" else {"compact_summary": ""}
            return {"trigger": "auto", **more}
    return {"reason": "other"}


def _of_call(event: str, payload: ToolCall, call: ShownCall) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool_name": call.tool, "tool_input": call.input}
    if event == "PermissionRequest":
        return {**fields, "permission_suggestions": suggested(call)}
    fields["tool_use_id"] = payload.tool_call_id or ""
    if not isinstance(payload, ToolReturn):
        return fields
    text, took = payload.result.for_llm, {"duration_ms": payload.duration // 1_000_000}
    if payload.result.is_error:
        return {**fields, "error": text or payload.error or "", "is_interrupt": False, **took}
    return {**fields, "tool_response": response(call, text), **took}


def batch(messages: Sequence[Mapping[str, Any]], facts: Facts) -> list[dict[str, Any]]:
    """The calls whose results are the last messages of the conversation."""
    results: dict[str, str] = {}
    at = len(messages)
    while at and messages[at - 1].get("role") == "tool":
        at -= 1
        results[str(messages[at].get("tool_call_id") or "")] = text_of(messages[at])
    calls = calls_of(messages[at - 1]) if results and at else []
    shown = [(one, shown_call(one.tool, one.arguments, facts.cwd, facts.tools)) for one in calls]
    return [
        {
            "tool_name": call.tool,
            "tool_input": call.input,
            "tool_use_id": one.tool_call_id or "",
            "tool_response": response(call, results.get(one.tool_call_id or "", "")),
        }
        for one, call in shown
    ]
