"""Reads the output of a hook that answers in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.replies import read_decision
from ..protocol.codec import decode_value
from ..wire.text import show

if TYPE_CHECKING:
    from ..model.decisions import Decision
    from ..model.stages import Stage


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
