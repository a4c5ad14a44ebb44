"""picohook's own contract with `run` hooks: a command gets the same params as a hook process, and answers in the same form.

The command reads the params of the question or event on stdin, as one line of JSON. The environment names the stage or the
event. The command writes its result to stdout; an empty output is an empty result. An exit code other than 0 is a failure,
whatever the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.replies import read_decision
from ..model.stages import STAGES
from ..wire import words
from ..wire.answer_fields import meaningful

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.decisions import Decision
    from ..model.events import Event
    from ..model.payloads import Payload
    from ..model.stages import Stage


def environment(event: str, cwd: str) -> dict[str, str]:
    """The environment variables of a command."""
    return {"PICOHOOK_EVENT": event, "PICOHOOK_CWD": cwd}


def question(stage: Stage[Any], payload: Payload, _cwd: str) -> tuple[str, dict[str, Any]]:
    """The stage's name, and the params of the question."""
    return stage.name, payload.wire()


def event(event: Event, dialect: str, _cwd: str) -> tuple[str, dict[str, Any]]:
    """The event's kind, and its params, in the hook's dialect."""
    return words.EVENT_KINDS[event.kind] if dialect == "runtime" else event.kind, event.params(dialect)


def decide(stage: Stage[Any], _payload: Payload, result: Mapping[str, Any]) -> Decision:
    """The decision in a result. Raises `ReplyError` for a result that the stage does not allow."""
    return read_decision(stage, dict(result))


def ignored(event: str, result: Mapping[str, Any]) -> list[str]:
    """The fields of a result that have no meaning: all of them at an event. At a stage, `decide` refuses such a result."""
    return [] if event in STAGES else meaningful(result)


def known(_event: str) -> set[str]:
    """The fields that a result may have at an event: none, because an event has no answer."""
    return set()
