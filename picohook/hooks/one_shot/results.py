"""Reads the JSON object that a hook wrote before it ended."""

from __future__ import annotations

from typing import Any

from ...protocol.codec import decode_value
from ...wire.text import show


def read_result(text: bytes) -> dict[str, Any]:
    """The JSON object in a hook's output; an empty one for no output. Raises `ValueError` for anything else."""
    if not text.strip():
        return {}
    try:
        value = decode_value(text.strip())
    except ValueError as error:
        raise ValueError(f"its output is not JSON: {error}: {show(text.strip(), 80)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its output is no JSON object: {show(text.strip(), 80)}")
    return value
