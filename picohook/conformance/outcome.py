"""How a check ends: it returns if the requirement holds, and raises `Failed` or `Skipped` if not."""

from __future__ import annotations

import json
from typing import Any

from ..wire.text import cut, escape

SHOWN = 300
"""The most bytes of a message that are shown."""


class Failed(Exception):  # noqa: N818 - the outcome of a check
    """The requirement does not hold."""

    def __init__(self, expected: str, said: str) -> None:
        super().__init__(f"expected {expected}; {said}")
        self.expected = expected
        self.said = said


class Skipped(Exception):  # noqa: N818
    """The requirement does not apply to this hook, which does nothing of the kind."""


def shown(value: Any) -> str:
    """Return a value as JSON that can be shown: cut, and with control characters escaped."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "JSON that is nested too deeply to show"
    short = cut(text, SHOWN)
    return escape(short if short == text else short + "…")
