"""A vendor's agent as data: its hook file, its events, its fields, and the form of its answers."""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ....model.payloads import Compaction, Finish, Meta, Payload, Prompt, ToolCall, ToolResult, ToolReturn
from ....protocol.codec import load
from ..claude.tool_response import text_of_output
from ..tools import BEGIN_PATCH, shown_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..contract import HandlerAnswer, Row
    from ..tools import ShownCall

OnFailure: TypeAlias = Literal["deny", "stop", "pass"]
"""The client's reaction to a missing answer: deny (exit code 2), stop the agent, or report it and let the call pass."""


class HookEntry(NamedTuple):
    """One event that the vendor's agent asks the shim about."""

    at: str
    """The stage at which hooks are asked, or the kind of the event that observers get."""
    on_failure: OnFailure = "pass"
    longest: float = float("inf")
    """The longest time-out that the vendor gives this event, in seconds."""
    failed: bool = False
    """Whether it is about a tool that failed."""


def hook_entries(
    rows: Mapping[str, Row], events: Mapping[OnFailure, Sequence[str]], **longest: float
) -> dict[str, HookEntry]:
    """The entries of these events, with the stage or kind that the vendor's dialect has for each. `longest` is by event."""
    return {
        event: HookEntry(
            "session_start" if rows[event].once else rows[event].stage or rows[event].kind,
            on_failure,
            longest.get(event, float("inf")),
            failed=event.endswith("Failure"),
        )
        for on_failure, named in events.items()
        for event in named
    }


def with_inner(event: str, answer: HandlerAnswer, output: dict[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """The output with the answer's message for the user, and with the fields of this event, if there are any."""
    if answer.message:
        output["systemMessage"] = answer.message
    if inner:
        output["hookSpecificOutput"] = {"hookEventName": event, **inner}
    return output


class Fields(NamedTuple):
    """The names that a vendor has for the fields of its events."""

    session: str = "session_id"
    turn: str = "prompt_id"
    tool: str = "tool_name"
    input: str = "tool_input"
    call_id: str = "tool_use_id"
    output: str = "tool_response"
    json_output: bool = False
    """Whether `output` is JSON in a text."""
    texts: tuple[str, ...] = ()
    """The place where the text is in a tool's output, if the output is a table of the vendor's own."""
    error: str = "error"
    prompt: str = "prompt"
    response: str = "last_assistant_message"


DEFAULT_FIELDS = Fields()


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of the agent, with its payload for hooks."""

    at: str
    payload: Payload
    given: Mapping[str, Any]
    """The event as the vendor wrote it."""
    call: ShownCall | None = None
    """The tool call in the event."""


@dataclass(frozen=True, slots=True)
class VendorAgent:
    """A vendor's agent."""

    title: str
    user_file: str
    """The user's hook file, from `~`."""
    project_file: str
    runs: tuple[str, ...]
    """The dialects of the files whose hooks the agent runs itself, so that the shim does not."""
    events: Mapping[str, HookEntry]
    entry: Callable[[str, HookEntry, str, float], dict[str, Any]]
    """Makes the entry of an event in the hook file, with this command and time-out."""
    show: Callable[[str, HandlerAnswer, AgentEvent], dict[str, Any]]
    """Makes the JSON of an answer for the agent; empty if there is nothing to say."""
    opens: str
    """A text for people: when the agent lets a call pass although the shim has not answered."""
    home: str = ""
    """The environment variable that replaces the directory of `user_file`."""
    fields: Fields = DEFAULT_FIELDS
    asks: bool = True
    """Whether a hook can let the agent ask its user about a call."""
    asks_about_changed: bool = True
    """Whether the agent then runs the call as hooks have changed it."""
    file: Mapping[str, Any] = field(default_factory=dict)
    """The other keys of a new hook file."""
    unsaid: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda _tool, _event: {}
    """Returns arguments of a call of this tool that the event leaves out. Hooks see them, and cannot change them."""

    def read(self, event: str, fields: Mapping[str, Any], cwd: str) -> AgentEvent:
        """Reads an event. Raises `KeyError` for an unknown event, and `ValueError` if a field is missing."""
        entry, names = self.events[event], self.fields
        meta = _meta(fields, names)
        place: dict[str, Any] = {"meta": meta}
        match entry.at:
            case "before_tool" | "after_tool":
                return self._read_call(entry, fields, place, cwd)
            case "before_prompt":
                return AgentEvent(entry.at, Prompt(**place, prompt=_text(fields, names.prompt, needed=True)), fields)
            case "before_finish":
                response = {"role": "assistant", "content": _text(fields, names.response)}
                return AgentEvent(entry.at, Finish(**place, response=response), fields)
            case "before_compact" | "after_compact":
                return AgentEvent(entry.at, Compaction(**place, scope="auto"), fields)
        return AgentEvent(entry.at, Payload(**place), fields)

    def _read_call(self, entry: HookEntry, fields: Mapping[str, Any], place: dict[str, Any], cwd: str) -> AgentEvent:
        names = self.fields
        tool, arguments = _text(fields, names.tool, needed=True), _table(fields.get(names.input))
        arguments |= self.unsaid(tool, fields)
        call = shown_call(tool, arguments, cwd, {})
        about = {
            **place,
            "tool": call.tool,
            "arguments": call.input,
            "tool_call_id": _text(fields, names.call_id) or None,
            "affected_paths": affected_paths(call, cwd) or None,
        }
        if entry.at == "before_tool":
            return AgentEvent(entry.at, ToolCall(**about), fields, call)
        output = fields.get(names.output)
        if names.json_output and isinstance(output, str):
            output = _decoded(output)
        raised = fields.get(names.error)
        text = str(raised) if entry.failed and raised else text_of_output(output, names.texts)
        result = ToolResult(for_llm=text, is_error=entry.failed)
        duration = fields.get("duration_ms", fields.get("duration"))
        spent = int(duration * 1_000_000) if isinstance(duration, int | float) and duration >= 0 else 0
        return AgentEvent(entry.at, ToolReturn(**about, result=result, duration=spent), fields, call)


def _meta(event: Mapping[str, Any], names: Fields) -> Meta:
    """The session and turn of an event. A subagent's turn is below the turn of its parent."""
    session, turn = _text(event, names.session), _text(event, names.turn)
    agent = _text(event, "agent_id")
    if not agent:
        return Meta(session_key=session, turn_id=turn or session, source="turn")
    kind = _text(event, "agent_type")
    return Meta(session_key=session, turn_id=agent, parent_turn_id=turn or session, agent_id=kind, source="turn")


def _text(event: Mapping[str, Any], name: str, *, needed: bool = False) -> str:
    value = event.get(name)
    if isinstance(value, str) and (value or not needed):
        return value
    if value is None and not needed:
        return ""
    raise ValueError(f"the event has no text in `{name}`")


def _table(value: Any) -> dict[str, Any]:
    """A tool's arguments. Some vendors give them as JSON in a text."""
    if isinstance(value, str):
        value = _decoded(value)
    return value if isinstance(value, dict) else {} if value is None else {"input": value}


def _decoded(text: str) -> Any:
    """The JSON in a text; the text itself if it is not JSON."""
    try:
        return load(text)
    except (ValueError, RecursionError):
        return text


_PATCHED = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def affected_paths(call: ShownCall, cwd: str) -> list[str]:
    """The files in a call's arguments, including those in a patch."""
    paths = [value for name in ("file_path", "notebook_path") if isinstance(value := call.input.get(name), str)]
    for value in call.input.values():
        if isinstance(value, str) and BEGIN_PATCH in value:
            named = (line.strip() for line in value.splitlines())
            paths += [line[len(mark) :] for line in named for mark in _PATCHED if line.startswith(mark)]
    return list(dict.fromkeys(os.path.normpath(os.path.join(cwd, path)) for path in paths))
