"""Builds what Gemini CLI's handlers read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, LLMRequest, LLMResponse, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from ..tools import known_name
from .events import TOOLS
from .model import name_of, shown_request, shown_response

if TYPE_CHECKING:
    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts
    from ..tools import ShownCall

_MCP = "mcp__"


def tell(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> HandlerInput:
    """Returns the handlers' input about a payload. No event is about a subagent, which is a tool call in Gemini CLI."""
    session = payload.meta.session_key or facts.session
    common = {
        "session_id": session,
        "transcript_path": "",
        "cwd": facts.cwd,
        "hook_event_name": event,
        "timestamp": facts.now,
    }
    names = {}
    if event == "BeforeToolSelection" and isinstance(payload, LLMRequest):
        names = {tool: gemini_name(known_name(tool, facts.tools)) for tool in map(name_of, payload.tools)}
    return HandlerInput(
        {**common, **_fields(event, payload, call, facts)}, call, {"GEMINI_SESSION_ID": session}, names=names
    )


def _fields(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> dict[str, Any]:
    """The event's own fields."""
    match payload:
        case ToolCall():
            assert call is not None
            return _of_call(payload, call)
        case Prompt() if event == "SessionStart":
            return {"source": "resume" if payload.messages else "startup"}
        case Prompt():
            return {"prompt": payload.prompt}
        case Finish():
            text = text_of(payload.response)
            return {"prompt": payload.prompt, "prompt_response": text, "stop_hook_active": facts.blocked}
        case LLMRequest():
            return {"llm_request": shown_request(payload.model, payload.messages, payload.options)}
        case LLMResponse():
            request = shown_request(payload.model, payload.messages or [])
            return {"llm_request": request, "llm_response": shown_response(payload.response)}
        case Compaction():
            return {"trigger": "auto"}
    return {"reason": "exit"}


def _of_call(payload: ToolCall, call: ShownCall) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool_name": call.tool, "tool_input": call.input}
    server, _, tool = payload.tool.removeprefix(_MCP).partition("__")
    if payload.tool.startswith(_MCP) and tool:
        fields["mcp_context"] = {"server_name": server, "tool_name": tool}
    if not isinstance(payload, ToolReturn):
        return fields
    result = payload.result
    response: dict[str, Any] = {"llmContent": result.for_llm, "returnDisplay": result.for_user or result.for_llm}
    if result.is_error:
        response["error"] = {"message": payload.error or result.for_llm, "type": "execution_failed"}
    return {**fields, "tool_response": response}


def gemini_call(call: ShownCall, _tool: str) -> ShownCall:
    """A call as Gemini CLI would make it."""
    return call._replace(tool=gemini_name(call.tool))


def gemini_name(name: str) -> str:
    """The name that Gemini CLI has for a tool of the table. It writes `mcp_SERVER_TOOL` for the tool of a server."""
    server, _, inner = name.removeprefix(_MCP).partition("__")
    return f"mcp_{server}_{inner}" if name.startswith(_MCP) and inner else TOOLS.get(name, name)
