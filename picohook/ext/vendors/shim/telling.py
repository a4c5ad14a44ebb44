"""Reads the events of a vendor's agent, and writes the answers: the way of a hook file backwards, by the same rows.

An event's fields become the payload for hooks. The answer of hooks becomes the fields that the agent reads.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....model.payloads import Compaction, Finish, Meta, Payload, Prompt, ToolCall, ToolResult, ToolReturn
from ....protocol.codec import load
from ..tools import BEGIN_PATCH, shown_call, text_of_output
from ..words import filled, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..contract import HandlerAnswer
    from ..tools import ShownCall
    from ..vendor import Vendor
    from ..vendor_table import Row

_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of the agent, with its payload for hooks."""

    at: str
    payload: Payload
    given: Mapping[str, Any]
    """The event as the vendor wrote it."""
    call: ShownCall | None = None
    """The tool call in the event."""


class _Fields:
    """The fields of an event, by their words."""

    def __init__(self, vendor: Vendor, event: str, given: Mapping[str, Any]) -> None:
        named = {**vendor.shim.also, **vendor.read_at(event)}
        self._names = {name_of(word): field for field, word in reversed(named.items())}
        self._given = given

    def value(self, word: str) -> Any:
        """The value of a field; None if the vendor has none."""
        return self._given.get(self._names.get(word, ""))

    def text(self, word: str, *, needed: bool = False) -> str:
        """A text. Raises `ValueError` for another value, and for none if it is needed."""
        value = self.value(word)
        if isinstance(value, str) and (value or not needed):
            return value
        if value is None and not needed:
            return ""
        raise ValueError(f"the event has no text in `{self._names[word]}`")

    def meta(self) -> Meta:
        """The session and turn. A subagent's turn is below the turn of its parent."""
        session, agent = self.text("session"), self.text("agent")
        turn = self.text("turn") or self.text("stage_turn") or session
        if not agent:
            return Meta(session_key=session, turn_id=turn, source="turn")
        kind = self.text("agent_type")
        return Meta(session_key=session, turn_id=agent, parent_turn_id=turn, agent_id=kind, source="turn")


def session_of(vendor: Vendor, event: str, given: Mapping[str, Any]) -> Any:
    """The session of an event; None without one."""
    return _Fields(vendor, event, given).value("session")


def read_event(vendor: Vendor, event: str, given: Mapping[str, Any], cwd: str) -> AgentEvent:
    """Reads an event. Raises `KeyError` for an unknown event, and `ValueError` if a field is missing."""
    row = vendor.events[event]
    fields = _Fields(vendor, event, given)
    meta = fields.meta()
    match row.at:
        case "before_tool" | "after_tool":
            return _read_call(vendor, row, fields, given, cwd)
        case "before_prompt":
            return AgentEvent(row.at, Prompt(meta=meta, prompt=fields.text("prompt", needed=True)), given)
        case "before_finish":
            response = {"role": "assistant", "content": fields.text("answer")}
            return AgentEvent(row.at, Finish(meta=meta, response=response), given)
        case "before_compact" | "after_compact":
            return AgentEvent(row.at, Compaction(meta=meta, scope="auto"), given)
    return AgentEvent(row.at, Payload(meta=meta), given)


def _read_call(vendor: Vendor, row: Row, fields: _Fields, given: Mapping[str, Any], cwd: str) -> AgentEvent:
    tool, arguments = fields.text("tool", needed=True), _decoded(fields.value("input"))
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    call = shown_call(tool, {**arguments, **vendor.unsaid(tool, given)}, cwd, {})
    about: dict[str, Any] = {
        "meta": fields.meta(),
        "tool": call.tool,
        "arguments": call.input,
        "tool_call_id": fields.text("call_id") or None,
        "affected_paths": affected_paths(call, cwd) or None,
    }
    if row.at == "before_tool":
        return AgentEvent(row.at, ToolCall(**about), given, call)
    failed, raised, duration = row.results == "failed", fields.value("error"), fields.value("took_ms")
    output = fields.value("result") or _decoded(fields.value("json_result"))
    text = str(raised) if failed and raised else text_of_output(output, vendor.shim.texts)
    spent = int(duration * 1_000_000) if isinstance(duration, int | float) and duration >= 0 else 0
    result = ToolResult(for_llm=text, is_error=failed)
    return AgentEvent(row.at, ToolReturn(**about, result=result, duration=spent), given, call)


def _decoded(value: Any) -> Any:
    """A tool's arguments or output. Some vendors give them as JSON in a text; another text stays as it is."""
    try:
        return load(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def affected_paths(call: ShownCall, cwd: str) -> list[str]:
    """The files in a call's arguments, including those in a patch."""
    paths = [value for name in ("file_path", "notebook_path") if isinstance(value := call.input.get(name), str)]
    for value in call.input.values():
        if isinstance(value, str) and BEGIN_PATCH in value:
            named = (line.strip() for line in value.splitlines())
            paths += [line[len(mark) :] for line in named for mark in _PATCHED if line.startswith(mark)]
    return list(dict.fromkeys(os.path.normpath(os.path.join(cwd, path)) for path in paths))


def show(vendor: Vendor, event: str, answer: HandlerAnswer, agent_event: AgentEvent) -> dict[str, Any]:
    """The JSON of an answer for the agent; empty for nothing to say. Raises `PicohookError` for what it cannot be told."""
    row, given = vendor.events[event], agent_event.given

    def value(word: str) -> Any:
        if word == "shaped":
            return vendor.reshaped(event, given, answer.output if answer.ends is None else answer.ends)
        found = getattr(answer, word)
        if word == "input":
            return dict(vendor.changed_input(given, found))
        return "a hook removed the result" if word == "output" and not found.strip() else found

    said: dict[str, Any] = {}
    for part, fields in {**vendor.says, **row.says}.items():
        has_part = getattr(answer, part) not in (None, "") or (part == "output" and answer.output is not None)
        # At the end of a turn, a verdict would continue it.
        if has_part and not (part == "verdict" and row.stage == "before_finish" and answer.ends is not None):
            said |= filled(fields, value)
    inner = {name: said.pop(name) for name in [*said] if vendor.inside and name not in vendor.answers}
    return {**said, vendor.inside: {"hookEventName": event, **inner}} if inner else said


def entry(vendor: Vendor, event: str, command: str, seconds: float) -> dict[str, Any]:
    """The entry of an event in the agent's hook file, with this command and time-out."""
    files, unit = vendor.files, vendor.files.unit
    timeout = round(seconds / unit) if unit < 1 or float(seconds).is_integer() else seconds
    closed = vendor.shim.closed if vendor.events[event].on_failure != "pass" else {}
    handler = filled({**vendor.shim.entry, **closed}, {"command": command, "timeout": timeout}.__getitem__)
    return {"hooks": [handler]} if files.layout == "groups" else handler
