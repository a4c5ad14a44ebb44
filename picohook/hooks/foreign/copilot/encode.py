"""What Copilot's handlers read, and which of them run."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ....model.conversation import text_of
from ....model.payloads import Compaction, Finish, Prompt, ToolCall, ToolReturn
from ..contract import Told
from ..patterns import javascript
from ..tools import ShownCall, shown_call
from .events import BASE, CLAUDE_NAMES, EVENTS, RUNTIME, snake

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....model.events import Event
    from ....model.payloads import Payload
    from ..contract import Facts, Rule

_NAMES = re.compile(r"[\w-]+(\|[\w-]+)*", re.ASCII)
"""A matcher of Claude Code's form that is a list of names."""
_EVERYTHING = frozenset({"", "*", "**"})
_ALSO = {"task": ("Task",)}
_OF_PROMPT = frozenset({"sessionStart", "userPromptSubmitted", "userPromptTransformed"})


def is_pascal(event: str) -> bool:
    """Whether this is the PascalCase name of an event."""
    return BASE[event] != event


def encode(event: str, payload: Payload | Event, facts: Facts) -> Told | None:
    """What the handlers of an event read about a payload; None if the event does not happen with this payload."""
    base, call = BASE[event], None
    if isinstance(payload, ToolCall):
        if (isinstance(payload, ToolReturn) and payload.result.is_error) is not (base == "postToolUseFailure"):
            return None
        call = copilot_call(payload.tool, payload.arguments, facts)
    fields = _fields(base, payload, call, facts)
    if fields is None:
        return None
    session = payload.meta.session_key or facts.session
    if not is_pascal(event):
        when = int(datetime.fromisoformat(facts.now).timestamp() * 1000) if facts.now else 0
        return Told({"sessionId": session, "timestamp": when, "cwd": facts.cwd, **fields}, call)
    common = {"hook_event_name": event, "session_id": session, "timestamp": facts.now, "cwd": facts.cwd}
    told = {**common, **{snake(name): value for name, value in fields.items()}}
    if call is not None:
        told["tool_name"] = CLAUDE_NAMES.get(call.tool, call.tool)
    if isinstance(told.get("tool_result"), dict):
        told["tool_result"] = {snake(name): value for name, value in told["tool_result"].items()}
    return Told(told, call)


def copilot_call(tool: str, arguments: Mapping[str, Any], facts: Facts) -> ShownCall:
    """A call as Copilot would make it."""
    call = shown_call(tool, arguments, facts.cwd, facts.tools)
    name, fields = RUNTIME.get(call.tool, (call.tool, {}))
    own = {fields.get(field, field): call.fields.get(field, field) for field in call.input}
    return ShownCall(
        tool.lower() if tool.lower() in CLAUDE_NAMES else name,
        {fields.get(field, field): value for field, value in call.input.items()},
        arguments,
        {theirs: ours for theirs, ours in own.items() if theirs != ours},
    )


def _fields(base: str, payload: Payload | Event, call: ShownCall | None, facts: Facts) -> dict[str, Any] | None:
    """The event's own fields, by their names in camelCase."""
    meta = payload.meta
    in_subagent = bool(meta.parent_turn_id)
    subagent = {"transcriptPath": "", "agentName": meta.agent_id}
    match payload:
        case ToolCall():
            assert call is not None
            return _of_call(base, payload, call)
        case Prompt():
            if base == "subagentStart":
                return subagent if in_subagent else None
            return None if in_subagent or base not in _OF_PROMPT else _of_prompt(base, payload)
        case Finish():
            if in_subagent is not (base == "subagentStop"):
                return None
            told = {"transcriptPath": "", "stopReason": "end_turn"}
            if not in_subagent:
                return {**told, "stop_hook_active": facts.blocked}
            more = {"agentId": meta.turn_id, "agentType": meta.agent_id, "response": text_of(payload.response)}
            return {**subagent, **more, **told}
        case Compaction():
            return {"transcriptPath": "", "trigger": "auto", "customInstructions": ""}
    return {"reason": "complete"} if base == "sessionEnd" else _of_error(payload)


def _of_call(base: str, payload: ToolCall, call: ShownCall) -> dict[str, Any]:
    if base == "permissionRequest":
        return {"toolName": call.tool, "toolInput": call.input}
    told: dict[str, Any] = {"toolName": call.tool, "toolArgs": call.input}
    if not isinstance(payload, ToolReturn):
        return told
    said = payload.result.for_llm
    if payload.result.is_error:
        return {**told, "error": said or payload.error or ""}
    return {**told, "toolResult": {"resultType": "success", "textResultForLlm": said}}


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


def select(event: str, rules: Sequence[Rule], told: Told, _facts: Facts) -> list[int]:
    """The places of the handlers whose matcher matches."""
    matched = EVENTS[event].matched
    if not matched:
        return list(range(len(rules)))
    if is_pascal(event) and told.call is not None:
        tool = told.call.tool
        names = (CLAUDE_NAMES.get(tool, tool), tool, *_ALSO.get(tool, ()))
        return [place for place, rule in enumerate(rules) if matches_as_claude(rule.matcher, names)]
    subject = str(told.stdin.get(matched, ""))
    return [place for place, rule in enumerate(rules) if matches(rule.matcher, subject)]


def matches(matcher: str, subject: str) -> bool:
    """Whether the whole of a text matches. Raises `ValueError` if the matcher cannot be read."""
    return not matcher or javascript(f"^(?:{matcher})$").search(subject) is not None


def matches_as_claude(matcher: str, names: Sequence[str]) -> bool:
    """Whether a list has one of a tool's names, or an expression matches its first. Raises `ValueError`, likewise."""
    if matcher in _EVERYTHING:
        return True
    if _NAMES.fullmatch(matcher):
        return not set(matcher.split("|")).isdisjoint(names)
    return matches(matcher, names[0])
