"""Builds what Copilot's handlers read."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from .events import BASE, CLAUDE_NAMES, RUNTIME, is_pascal, snake

if TYPE_CHECKING:
    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts
    from ..tools import ShownCall


def tell(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> HandlerInput:
    """Returns the handlers' input about a payload."""
    fields = _fields(BASE[event], payload, call, facts)
    session = payload.meta.session_key or facts.session
    if not is_pascal(event):
        when = int(datetime.fromisoformat(facts.now).timestamp() * 1000) if facts.now else 0
        return HandlerInput({"sessionId": session, "timestamp": when, "cwd": facts.cwd, **fields}, call)
    common = {"hook_event_name": event, "session_id": session, "timestamp": facts.now, "cwd": facts.cwd}
    stdin = {**common, **{snake(name): value for name, value in fields.items()}}
    if call is not None:
        stdin["tool_name"] = CLAUDE_NAMES.get(call.tool, call.tool)
    if isinstance(stdin.get("tool_result"), dict):
        stdin["tool_result"] = {snake(name): value for name, value in stdin["tool_result"].items()}
    return HandlerInput(stdin, call)


def copilot_call(call: ShownCall, tool: str) -> ShownCall:
    """A call as Copilot would make it."""
    name, fields = RUNTIME.get(call.tool, (call.tool, {}))
    own = {fields.get(field, field): call.fields.get(field, field) for field in call.input}
    return call._replace(
        tool=tool.lower() if tool.lower() in CLAUDE_NAMES else name,
        input={fields.get(field, field): value for field, value in call.input.items()},
        fields={theirs: ours for theirs, ours in own.items() if theirs != ours},
    )


def _fields(base: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> dict[str, Any]:
    """The event's own fields, by their names in camelCase."""
    meta = payload.meta
    subagent = {"transcriptPath": "", "agentName": meta.agent_id}
    match payload:
        case ToolCall():
            assert call is not None
            return _of_call(base, payload, call)
        case Prompt():
            return subagent if base == "subagentStart" else _of_prompt(base, payload)
        case Finish():
            fields = {"transcriptPath": "", "stopReason": "end_turn"}
            if base == "agentStop":
                return {**fields, "stop_hook_active": facts.blocked}
            more = {"agentId": meta.turn_id, "agentType": meta.agent_id, "response": text_of(payload.response)}
            return {**subagent, **more, **fields}
        case Compaction():
            return {"transcriptPath": "", "trigger": "auto", "customInstructions": ""}
    return {"reason": "complete"} if base == "sessionEnd" else _of_error(payload)


def _of_call(base: str, payload: ToolCall, call: ShownCall) -> dict[str, Any]:
    if base == "permissionRequest":
        return {"toolName": call.tool, "toolInput": call.input}
    fields: dict[str, Any] = {"toolName": call.tool, "toolArgs": call.input}
    if not isinstance(payload, ToolReturn):
        return fields
    text = payload.result.for_llm
    if payload.result.is_error:
        return {**fields, "error": text or payload.error or ""}
    return {**fields, "toolResult": {"resultType": "success", "textResultForLlm": text}}


def _of_prompt(base: str, payload: Prompt) -> dict[str, Any]:
    if base == "sessionStart":
        return {"source": "resume" if payload.messages else "startup", "initialPrompt": payload.prompt}
    also = {"transformedPrompt": payload.prompt} if base == "userPromptTransformed" else {}
    return {"prompt": payload.prompt, **also}


def _of_error(payload: Payload | Event) -> dict[str, Any]:
    about = getattr(payload, "payload", {})
    where = str(about.get("Stage") or "")
    context = "model_call" if "llm" in where else "tool_execution" if "tool" in where else "system"
    error = {"message": str(about.get("Message") or ""), "name": "Error"}
    return {"error": error, "errorContext": context, "recoverable": False}
