"""j-cli's contract with its hooks: events, fields, environment and answers, as tables and pure functions.

Hooks from j-cli's own files use it, and all `prompt` hooks. The hook gets a context: as JSON on a command's stdin, or as the
variables of a prompt. It returns a result: a JSON object, in which an absent field and null change nothing. An empty output is
an empty result. An exit code other than 0 is a failure, whatever the output.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.conversation import text_of
from ...protocol.codec import decode_value, encode
from ...wire import words
from ...wire.answer_fields import is_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.stages import Stage


_TABLE = tomllib.loads(Path(__file__).with_name("events.toml").read_text(encoding="utf-8"))
EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (row["stage"], row.get("which", {})) for name, row in _TABLE.items() if "stage" in row
}
"""The events that a hook can answer: for each, its stage, and the filter for its payloads."""
TOLD: dict[str, str] = {name: row["told"] for name, row in _TABLE.items() if "told" in row}
"""The events that a hook only observes: for each, picohook's kind of event."""
READS: dict[str, list[str]] = {name: row["reads"] for name, row in _TABLE.items()}
"""The fields of each event's context, beside event, session_id and cwd."""
EDITS: dict[str, list[str]] = {name: row["edits"] for name, row in _TABLE.items() if "edits" in row}
"""The fields of a result that edit the payload, by event."""
NOTES = ("system_message", "additional_context", "inject_messages")
"""The fields of a result that are notes, at every event."""
_DECISIONS = ("action", "retry_feedback", "abort")
RESULT = frozenset({*NOTES, *_DECISIONS}.union(*EDITS.values()))
"""All fields of a result."""

STOP, SKIP = "stop", "skip"

VARIABLES = ("event", "user_input", "assistant_output", "tool_name", "tool_arguments", "tool_result", "model", "cwd")
"""The fields of a context that a prompt can name, as in {{tool_name}}."""


def environment(event: str, cwd: str) -> dict[str, str]:
    """The environment variables of a command."""
    return {"JCLI_HOOK_EVENT": event, "JCLI_CWD": cwd}


def stage_name(stage: Stage[Any], payload: Payload) -> str:
    """j-cli's event for a question about this payload."""
    match stage.name:
        case "after_tool":
            failed = payload.result.is_error  # type: ignore[attr-defined]
            return "post_tool_execution_failure" if failed else "post_tool_execution"
        case "before_compact" | "after_compact":
            return f"{'pre' if stage.name == 'before_compact' else 'post'}_{payload.scope}_compact"  # type: ignore[attr-defined]
    return _NAMES.get(stage.name, stage.name)


_NAMES = {stage: event for event, (stage, which) in EVENTS.items() if not which}
_KINDS = {kind: event for event, kind in TOLD.items()}


def question(stage: Stage[Any], payload: Payload, cwd: str) -> tuple[str, dict[str, Any]]:
    """The event of a question, and its context. It lacks the fields that the runtime did not give."""
    event = stage_name(stage, payload)
    values = payload.__dict__
    result = values.get("result")
    output = result.for_llm if result is not None else None
    fields = {
        "user_input": values.get("prompt"),
        "assistant_output": text_of(values["response"]) if "response" in values else None,
        "messages": values.get("messages"),
        "system_prompt": values.get("system_prompt"),
        "model": values.get("model") or None,
        "tool_name": values.get("tool"),
        "tool_arguments": encode(values["arguments"]).decode() if "arguments" in values else None,
        "tool_result": output,
        "tool_error": output or values.get("error"),
    }
    return _filled(event, {name: fields[name] for name in READS[event]}, payload.meta.session_key, cwd)


def event(event: Event, _dialect: str, cwd: str) -> tuple[str, dict[str, Any]]:
    """The name of an event, and its context. A kind that j-cli does not have keeps picohook's name and payload."""
    name = _KINDS.get(event.kind, event.kind)
    payload = event.payload
    fields = {"user_input": payload.get("UserMessage"), "messages": payload.get("Messages")}
    told = {field: fields[field] for field in READS[name]} if name in READS else {"payload": dict(payload)}
    return _filled(name, told, event.meta.session_key, cwd)


def _filled(event: str, fields: Mapping[str, Any], session_id: str, cwd: str) -> tuple[str, dict[str, Any]]:
    context = {"event": event, **fields, "session_id": session_id or None, "cwd": cwd}
    return event, {name: value for name, value in context.items() if value is not None}


def decide(stage: Stage[Any], payload: Payload, result: Mapping[str, Any]) -> Decision:
    """The decision in a result. Raises `ValueError` for a result that the stage does not allow.

    `stop` ends the turn. With retry_feedback it starts another round, if the stage allows that. Before a compaction it only
    skips the compaction. `skip` denies a tool: the model is told, and the turn continues.
    """
    from ...model.replies import read_decision, text_in  # reading a configuration does without

    if stage.approves:
        return read_decision(stage, dict(result))
    answer = {name: result[name] for name in NOTES if name in result}
    feedback = text_in(result, "retry_feedback", None)
    action = _action(result)
    if words.RETRY in stage.actions and feedback and action != SKIP:
        return read_decision(stage, {**answer, "action": words.RETRY, "feedback": feedback})
    if action is None:
        edits = _edits(stage, stage_name(stage, payload), result)
        return read_decision(stage, {**answer, **edits, **({"action": words.MODIFY} if edits else {})})
    meaning = _ACTIONS.get((action, stage.name)) or (words.ABORT_TURN if action == STOP else None)
    if meaning is None:
        raise ValueError(f'"skip" skips a tool or a compaction, and this is {stage_name(stage, payload)}')
    return read_decision(stage, {**answer, "action": meaning, "reason": feedback or _REASONS.get(meaning, "")})


_ACTIONS = {
    (SKIP, "before_tool"): words.DENY,
    (SKIP, "before_compact"): words.SKIP,
    (STOP, "before_compact"): words.SKIP,
}
_REASONS = {words.DENY: "the tool was skipped", words.ABORT_TURN: "stopped by hook"}


def known(event: str) -> set[str]:
    """The fields that a result may have at this event."""
    if event in TOLD or event not in READS:
        return set()
    if event == "approve_tool":
        return {"approved", "reason", "action"}
    return {*EDITS.get(event, ()), *NOTES, *_DECISIONS}


def ignored(event: str, result: Mapping[str, Any]) -> tuple[list[str], set[str]]:
    """The fields of a result that have no meaning at this event, and those that it may have."""
    fields = known(event)
    return [name for name, value in result.items() if value is not None and name not in fields], fields


def require_known(event: str, result: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a result with an unknown field that decides nothing otherwise: it may be a refusal.

    An approval may have no unknown field at all, because a failure always denies there.
    """
    unknown, fields = ignored(event, result)
    decides = [name for name in fields.difference(NOTES) if is_set(result.get(name))]
    if event == "pre_tool_execution" and decides == ["retry_feedback"]:
        raise ValueError("`retry_feedback` decides nothing without an `action`")
    if fields and unknown and (event == "approve_tool" or not decides):
        raise ValueError(f"`{unknown[0]}` decides nothing at {event}: the answer may have {', '.join(sorted(fields))}")


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
    """The edits in a result, in the form of an answer at the stage."""
    from ...model.replies import objects_in, text_in  # reading a configuration does without

    names = {name for name in EDITS.get(event, ()) if result.get(name) is not None}
    changes: dict[str, Any] = {}
    for name in names:
        if name == "messages":
            changes[name] = objects_in(result, name)
        elif name == "tool_arguments":
            changes["arguments"] = _arguments(result[name])
        else:
            changes[_FIELDS.get(name, name)] = text_in(result, name, None)
    if not changes or stage.fields:
        return changes
    return {stage.carries: changes}


_FIELDS = {"user_input": "prompt", "assistant_output": "content", "tool_result": "for_llm", "tool_error": "for_llm"}


def _arguments(value: Any) -> dict[str, Any]:
    try:
        arguments = decode_value(value.encode()) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"`tool_arguments` is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("`tool_arguments` is not a JSON object")
    return arguments
