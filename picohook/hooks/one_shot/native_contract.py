"""picohook's own contract with `run` hooks: a command gets what a hook process gets, and answers as one.

On stdin are the params of the question or of the event, as one line of JSON. The environment names which of them it is. On
stdout is the result that a hook process would send; no output is an empty result. An exit code other than 0 is a failure,
whatever the output says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...model.replies import read_decision
from ...model.stages import STAGES
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


def question(stage: Stage[Any], payload: Payload, _cwd: str) -> tuple[str, dict[str, Any]]:
    """The stage's name, and the params of the question."""
    return stage.name, payload.wire()


def event(event: Event, dialect: str, _cwd: str) -> tuple[str, dict[str, Any]]:
    """The event's kind, and its params, in the hook's dialect."""
    return words.EVENT_KINDS[event.kind] if dialect == "runtime" else event.kind, event.params(dialect)


def decide(stage: Stage[Any], _payload: Payload, result: Mapping[str, Any]) -> Decision:
    """The decision in a result. Raises `ReplyError` for a result that says something and decides nothing."""
    return read_decision(stage, dict(result))


def ignored(event: str, result: Mapping[str, Any]) -> list[str]:
    """The fields of a result that mean nothing: all, at an event. At a stage `decide` refuses such a result."""
    return [] if event in STAGES else meaningful(result)


def known(_event: str) -> set[str]:
    """None: an event has no answer."""
    return set()
