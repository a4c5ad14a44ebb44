"""Builds what Cursor's handlers read."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, LLMResponse, Prompt, ToolCall, ToolReturn
from ..contract import HandlerInput
from ..tools import known_name
from .events import CURSOR_VERSION, TOOLS

if TYPE_CHECKING:
    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts
    from ..tools import ShownCall

_MCP, SHOWN_MCP = "mcp__", "MCP:"


def tell(event: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> HandlerInput | None:
    """Returns the handlers' input about a payload; None if the event does not happen with it."""
    files: dict[str, str] = {}
    if isinstance(payload, ToolCall):
        assert call is not None
        fields = _of_call(event, payload, call, facts)
        if event == "beforeReadFile" and fields is not None and fields["file_path"]:
            files = {"content": fields["file_path"]}
    else:
        fields = _fields(event, payload, facts)
    return None if fields is None else HandlerInput({**_common(event, payload, facts), **fields}, call, files=files)


def _common(event: str, payload: Payload | Event, facts: Facts) -> dict[str, Any]:
    return {
        "conversation_id": payload.meta.session_key or facts.session,
        "generation_id": payload.meta.turn_id,
        "model": getattr(payload, "model", None) or "",
        "hook_event_name": event,
        "cursor_version": CURSOR_VERSION,
        "workspace_roots": [facts.project],
        "user_email": None,
        "transcript_path": None,
    }


def _of_call(event: str, payload: ToolCall, call: ShownCall, facts: Facts) -> dict[str, Any] | None:
    """The fields of an event that is about a tool; None if it is about another tool, or another result."""
    result = payload.result if isinstance(payload, ToolReturn) else None
    took = payload.duration // 1_000_000 if isinstance(payload, ToolReturn) else 0
    common = {
        "tool_name": call.tool,
        "tool_input": call.input,
        "tool_use_id": payload.tool_call_id or "",
        "cwd": facts.cwd,
    }
    command, path = _line(call.input.get("command")), str(call.input.get("file_path") or "")
    known = known_name(payload.tool, facts.tools)
    match event:
        case "preToolUse":
            return {**common, "agent_message": ""}
        case "postToolUse" if result is not None and not result.is_error:
            return {**common, "tool_output": json.dumps(_output(call, result.for_llm)), "duration": took}
        case "postToolUseFailure" if result is not None and result.is_error and isinstance(payload, ToolReturn):
            why = result.for_llm or payload.error or ""
            return {**common, "error_message": why, "failure_type": "error", "duration": took, "is_interrupt": False}
        case "beforeShellExecution" if known == "Bash":
            return {"command": command, "cwd": facts.cwd, "sandbox": False}
        case "afterShellExecution" if known == "Bash" and result is not None:
            return {"command": command, "output": result.for_llm, "duration": took, "sandbox": False}
        case "beforeMCPExecution" if call.tool.startswith(SHOWN_MCP):
            return {"tool_name": call.tool.removeprefix(SHOWN_MCP), "tool_input": json.dumps(call.input)}
        case "afterMCPExecution" if call.tool.startswith(SHOWN_MCP) and result is not None:
            output = json.dumps(_output(call, result.for_llm))
            named = {"tool_name": call.tool.removeprefix(SHOWN_MCP), "tool_input": json.dumps(call.input)}
            return {**named, "result_json": output, "duration": took}
        case "beforeReadFile" if known == "Read":
            return {"file_path": path, "content": "", "attachments": []}
        case "afterFileEdit" if known in {"Write", "Edit"} and result is not None and not result.is_error:
            new = call.input.get("content") if known == "Write" else call.input.get("new_string")
            return {
                "file_path": path,
                "edits": [{"old_string": call.input.get("old_string") or "", "new_string": new or ""}],
            }
    return None


def _line(command: Any) -> str:
    """A command as one line, as a shell would take it."""
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command or "")


def _output(call: ShownCall, text: str) -> dict[str, Any]:
    """A tool's result, in the shape that Cursor gives the results of this tool."""
    if call.tool == "Shell":
        return {"exitCode": 0, "stdout": text}
    return {"content": [{"type": "text", "text": text}]} if call.tool.startswith(SHOWN_MCP) else {"content": text}


def _fields(event: str, payload: Payload | Event, facts: Facts) -> dict[str, Any] | None:
    """The fields of an event that is about no tool; None if it does not happen with this payload."""
    meta = payload.meta
    match payload:
        case Prompt() if event == "subagentStart":
            return {
                "subagent_id": meta.turn_id,
                "subagent_type": meta.agent_id,
                "task": payload.prompt,
                "parent_conversation_id": meta.session_key or facts.session,
                "tool_call_id": "",
                "is_parallel_worker": False,
            }
        case Prompt() if event == "sessionStart":
            session = meta.session_key or facts.session
            return {"session_id": session, "is_background_agent": False, "composer_mode": "agent"}
        case Prompt():
            return {"prompt": payload.prompt, "attachments": []}
        case Finish() if event == "subagentStop":
            return {
                "subagent_type": meta.agent_id,
                "status": "completed",
                "task": payload.prompt,
                "summary": text_of(payload.response),
                "message_count": len(payload.messages),
                "loop_count": facts.blocks,
                "agent_transcript_path": None,
            }
        case Finish():
            return {"status": "completed", "loop_count": facts.blocks}
        case LLMResponse():
            text = text_of(payload.response)
            return {"text": text} if text else None
        case Compaction():
            return {"trigger": "auto", "message_count": len(payload.messages)}
    session = meta.session_key or facts.session
    return {"session_id": session, "reason": "completed", "is_background_agent": False, "final_status": "completed"}


def cursor_call(call: ShownCall, _tool: str) -> ShownCall:
    """A call as Cursor would make it. It writes `MCP:TOOL` for the tool of a server."""
    _, _, inner = call.tool.removeprefix(_MCP).partition("__")
    is_served = call.tool.startswith(_MCP) and inner
    return call._replace(tool=SHOWN_MCP + inner if is_served else TOOLS.get(call.tool, call.tool))
