"""j-cli's contract with its hooks, as pure functions: what is asked, in which words, and what an answer decides.

`run` hooks and `prompt` hooks speak it. An event has a name, a context (what goes to a script's stdin, or into a prompt) and a
result (what comes back, of which a field that is absent or null changes nothing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.conversation import text_of
from ...model.replies import read_decision
from ...protocol.codec import decode_value, encode
from ...wire import words
from ...wire.text import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.stages import Stage

EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pre_send_message": ("before_prompt", {}),
    "pre_llm_request": ("before_llm", {}),
    "post_llm_response": ("after_llm", {}),
    "pre_tool_execution": ("before_tool", {}),
    "post_tool_execution": ("after_tool", {"is_error": False}),
    "post_tool_execution_failure": ("after_tool", {"is_error": True}),
    "stop": ("before_finish", {}),
    "pre_micro_compact": ("before_compact", {"scope": "micro"}),
    "post_micro_compact": ("after_compact", {"scope": "micro"}),
    "pre_auto_compact": ("before_compact", {"scope": "auto"}),
    "post_auto_compact": ("after_compact", {"scope": "auto"}),
}
"""Its events that can be answered, each as a stage and the payloads of it that are meant."""
TOLD = {"session_start": "session_start", "post_send_message": "prompt_sent", "session_end": "session_end"}
"""Its events that can not, each as our kind of event."""

READS: dict[str, tuple[str, ...]] = {
    "session_start": ("messages",),
    "session_end": ("messages",),
    "pre_send_message": ("user_input", "messages"),
    "post_send_message": ("user_input", "messages"),
    "pre_llm_request": ("messages", "system_prompt", "model"),
    "post_llm_response": ("assistant_output", "messages", "model"),
    "pre_tool_execution": ("tool_name", "tool_arguments"),
    "post_tool_execution": ("tool_name", "tool_result"),
    "post_tool_execution_failure": ("tool_name", "tool_error"),
    "stop": ("user_input", "assistant_output", "messages", "system_prompt", "model"),
    "pre_micro_compact": ("messages", "model"),
    "post_micro_compact": ("messages",),
    "pre_auto_compact": ("messages", "system_prompt", "model"),
    "post_auto_compact": ("messages",),
    "approve_tool": ("tool_name", "tool_arguments"),
}
"""What of a context each event has, beside event, session_id and cwd. (assistant_output at stop and approve_tool are ours.)"""

EDITS: dict[str, tuple[str, ...]] = {
    "pre_send_message": ("user_input",),
    "pre_llm_request": ("messages", "system_prompt"),
    "post_llm_response": ("assistant_output",),
    "pre_tool_execution": ("tool_arguments",),
    "post_tool_execution": ("tool_result",),
    "post_tool_execution_failure": ("tool_error",),
    "post_micro_compact": ("messages",),
    "post_auto_compact": ("messages",),
}
"""What of a result replaces something, by event."""
NOTES = ("system_message", "additional_context", "inject_messages")
"""What of a result adds something, at every event."""
RESULT = frozenset(field for fields in EDITS.values() for field in fields) | {
    *NOTES,
    "action",
    "retry_feedback",
    "abort",
}
"""Every field of a result."""

STOP, SKIP = "stop", "skip"


def event_name(stage: str, payload: Payload) -> str:
    """What j-cli calls this stage."""
    match stage:
        case "after_tool":
            failed = payload.result.is_error  # type: ignore[attr-defined]
            return "post_tool_execution_failure" if failed else "post_tool_execution"
        case "before_compact" | "after_compact":
            return f"{'pre' if stage == 'before_compact' else 'post'}_{payload.scope}_compact"  # type: ignore[attr-defined]
    return _NAMES.get(stage, stage)


_NAMES = {stage: event for event, (stage, which) in EVENTS.items() if not which}
_KINDS = {kind: event for event, kind in TOLD.items()}


def context(stage: Stage[Any], payload: Payload, cwd: str) -> dict[str, Any]:
    """What a hook is told when it is asked. What the event does not have, or the runtime did not give, is left out."""
    event = event_name(stage.name, payload)
    given = payload.__dict__
    result = given.get("result")
    said = result.for_llm if result is not None else None
    fields = {
        "user_input": given.get("prompt"),
        "assistant_output": text_of(given["response"]) if "response" in given else None,
        "messages": given.get("messages"),
        "system_prompt": given.get("system_prompt"),
        "model": given.get("model") or None,
        "tool_name": given.get("tool"),
        "tool_arguments": encode(given["arguments"]).decode() if "arguments" in given else None,
        "tool_result": said,
        "tool_error": said or given.get("error"),
    }
    return _filled(event, {name: fields[name] for name in READS[event]}, payload.meta.session_key, cwd)


def event_context(event: Event, cwd: str) -> dict[str, Any]:
    """What a hook is told of an event. One that j-cli does not have comes under our name, with its payload."""
    name = _KINDS.get(event.kind, event.kind)
    said = event.payload
    fields = {"user_input": said.get("UserMessage"), "messages": said.get("Messages")}
    told = {field: fields[field] for field in READS[name]} if name in READS else {"payload": dict(said)}
    return _filled(name, told, event.meta.session_key, cwd)


def _filled(event: str, fields: Mapping[str, Any], session_id: str, cwd: str) -> dict[str, Any]:
    given = {"event": event, **fields, "session_id": session_id or None, "cwd": cwd}
    return {name: value for name, value in given.items() if value is not None}


def read_result(text: bytes) -> dict[str, Any]:
    """The result in a hook's output; none is an empty one. Raises `ValueError`."""
    if not text.strip():
        return {}
    try:
        value = decode_value(text.strip())
    except ValueError as error:
        raise ValueError(f"its output is not JSON: {error}: {show(text.strip(), 80)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its output is no JSON object: {show(text.strip(), 80)}")
    return value


def decide(stage: Stage[Any], payload: Payload, result: Mapping[str, Any]) -> Decision:
    """What a result decides. Raises `ValueError` for one that means nothing there.

    stop ends the turn, or asks for another round where it comes with retry_feedback and the stage knows rounds; of a
    compaction it stops only that. skip is for a tool: the model is told, and the turn goes on.
    """
    if stage.approves:
        return read_decision(stage, dict(result))
    answer = {name: result[name] for name in NOTES if name in result}
    feedback = _text(result, "retry_feedback")
    action = _action(result)
    if words.RETRY in stage.actions and feedback and action != SKIP:
        return read_decision(stage, {**answer, "action": words.RETRY, "feedback": feedback})
    if action is None:
        edits = _edits(stage, event_name(stage.name, payload), result)
        return read_decision(stage, {**answer, **edits, **({"action": words.MODIFY} if edits else {})})
    meaning = _ACTIONS.get((action, stage.name)) or (words.ABORT_TURN if action == STOP else None)
    if meaning is None:
        raise ValueError(f'"skip" skips a tool or a compaction, and this is {event_name(stage.name, payload)}')
    return read_decision(stage, {**answer, "action": meaning, "reason": feedback or _REASONS.get(meaning, "")})


_ACTIONS = {
    (SKIP, "before_tool"): words.DENY,
    (SKIP, "before_compact"): words.SKIP,
    (STOP, "before_compact"): words.SKIP,
}
_REASONS = {words.DENY: "the tool was skipped", words.ABORT_TURN: "stopped by hook"}


def known(event: str) -> set[str]:
    """The fields that a result can have at this event."""
    if event in TOLD or event not in READS:
        return set()
    if event == "approve_tool":
        return {"approved", "reason", "action"}
    return {*EDITS.get(event, ()), *NOTES, "action", "abort", "retry_feedback"}


def ignored(event: str, result: Mapping[str, Any]) -> list[str]:
    """The fields of a result that mean nothing at this event."""
    fields = known(event)
    return [name for name, value in result.items() if value is not None and name not in fields]


def _action(result: Mapping[str, Any]) -> str | None:
    action, abort = result.get("action"), result.get("abort")
    if abort is not None and not isinstance(abort, bool):
        raise ValueError("`abort` is neither true nor false")
    if action in (None, ""):
        return STOP if abort else None
    if action not in (STOP, SKIP):
        raise ValueError(f'the action {action!r} is neither "stop" nor "skip"')
    return str(action)


def _edits(stage: Stage[Any], event: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a result replaces, as the stage's own answer."""
    given = {name for name in EDITS.get(event, ()) if result.get(name) is not None}
    changes: dict[str, Any] = {}
    for name in given:
        if name == "messages":
            changes[name] = _messages(result)
        elif name == "tool_arguments":
            changes["arguments"] = _arguments(result[name])
        else:
            changes[_FIELDS.get(name, name)] = _text(result, name)
    if not changes or stage.fields:
        return changes
    return {stage.carries: changes}


_FIELDS = {"user_input": "prompt", "assistant_output": "content", "tool_result": "for_llm", "tool_error": "for_llm"}


def _text(result: Mapping[str, Any], name: str) -> str:
    value = result.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"`{name}` is not a string")
    return value or ""


def _messages(result: Mapping[str, Any]) -> list[Any]:
    messages = result["messages"]
    if not (isinstance(messages, list) and all(isinstance(message, dict) for message in messages)):
        raise ValueError("`messages` is not a list of objects")
    return messages


def _arguments(given: Any) -> dict[str, Any]:
    try:
        arguments = decode_value(given.encode()) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"`tool_arguments` is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("`tool_arguments` is not a JSON object")
    return arguments
