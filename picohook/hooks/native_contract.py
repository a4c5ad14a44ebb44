"""picohook's own contract with `run` hooks: a command gets the same params as a hook process, and answers in the same form.

The command reads the params of the question or event on stdin, as one line of JSON. The environment names the stage or the
event. The command writes its result to stdout; an empty output is an empty result. An exit code other than 0 is a failure,
whatever the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.replies import read_decision
from ..model.stages import STAGES
from ..protocol.codec import decode_value
from ..wire import words
from ..wire.answer_fields import meaningful
from ..wire.text import show

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


def decision_in(stage: Stage[Any], text: bytes) -> Decision:
    """The decision in a text of JSON, in the form in which a process answers. An empty text continues.

    Raises `ValueError` if it is not a decision that the stage allows. That counts as a reply that cannot be used.
    """
    return read_decision(stage, read_result(text))


def read_result(text: bytes) -> dict[str, Any]:
    """The JSON object in a hook's output; an empty one for an empty output. Raises `ValueError` for any other output."""
    if not text.strip():
        return {}
    try:
        value = decode_value(text.strip())
    except ValueError as error:
        raise ValueError(f"its output is not JSON: {error}: {show(text.strip(), 80)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its output is not a JSON object: {show(text.strip(), 80)}")
    return value
