"""picohook's own contract with `run` hooks: a command gets what a hook process gets, and answers as one.

On stdin are the params of the question or of the event, as one line of JSON. The environment names which of them it is. On
stdout is the result that a hook process would send; no output is an empty result. An exit code other than 0 is a failure,
whatever the output says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.replies import read_decision
from ...wire import words
from ...wire.answer_fields import meaningful

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.stages import Stage


def environment(event: str, cwd: str) -> dict[str, str]:
    """The variables that a command gets."""
    return {"PICOHOOK_EVENT": event, "PICOHOOK_CWD": cwd}


def stage_name(stage: Stage[Any], payload: Payload) -> str:
    """The stage's own name."""
    del payload
    return stage.name


def kind_name(event: Event, dialect: str) -> str:
    """The event's kind, as its params have it."""
    return words.EVENT_KINDS[event.kind] if dialect == "runtime" else event.kind


def context(stage: Stage[Any], payload: Payload, cwd: str) -> dict[str, Any]:
    """The params of the question."""
    del stage, cwd
    return payload.wire()


def event_context(event: Event, dialect: str, cwd: str) -> dict[str, Any]:
    """The params of the event, in the hook's dialect."""
    del cwd
    return event.params(dialect)


def decide(stage: Stage[Any], payload: Payload, result: Mapping[str, Any]) -> Decision:
    """The decision in a result. Raises `ReplyError` for a result that says something and decides nothing."""
    del payload
    return read_decision(stage, dict(result))


def known(event: str) -> set[str]:
    """No names: `decide` refuses what means nothing at a stage, and an event has no answer."""
    del event
    return set()


def ignored(event: str, result: Mapping[str, Any]) -> list[str]:
    """The fields of a result that mean nothing, because the command was only told of an event."""
    return meaningful(result) if event in words.EVENT_KINDS or event in words.RUNTIME_KINDS else []
