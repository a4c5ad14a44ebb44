"""How a check says what it found: silence is a pass."""

from __future__ import annotations

import json
from typing import Any

from ..wire.text import cut, escape

SHOWN = 300
"""Bytes of what a hook said that are shown."""


class Failed(Exception):  # noqa: N818 - a verdict, and no error of ours
    """The requirement does not hold."""

    def __init__(self, expected: str, said: str) -> None:
        super().__init__(f"expected {expected}; {said}")
        self.expected = expected
        self.said = said


class Skipped(Exception):  # noqa: N818
    """The requirement is about something that this hook does not do."""


def shown(value: Any) -> str:
    """What was said, as JSON, fit to be read."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "JSON that is nested too deeply to show"
    short = cut(text, SHOWN)
    return escape(short if short == text else short + "…")
