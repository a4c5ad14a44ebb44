"""The picture of the page about speed: bars to scale, each panel on a scale of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1] / "docs" / "site"))

from pictures import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, LEFT, ROW, BAR = 480, 4, 40, 16
LONGEST = 380
Bar = tuple[str, float, str]
"""What a bar is about, its microseconds, and its colour."""


def shown(micros: float) -> str:
    """A time with the unit that fits it."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if micros >= size:
            return f"{micros / size:.3g} {unit}"
    return f"{micros:.3g} µs"


def draw(panels: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """An SVG of all panels, one below the other."""
    height = sum(40 + ROW * len(bars) for _, bars in panels)
    picture = Picture(WIDTH, height, "What a question takes: " + "; ".join(title for title, _ in panels))
    top = 0
    for title, bars in panels:
        picture.text(LEFT, top + 22, title, "title")
        longest = max(micros for _, micros, _ in bars)
        top += 34
        for label, micros, kind in bars:
            length = max(1.0, LONGEST * micros / longest)
            picture.text(LEFT, top + 13, label, "small")
            picture.bar(LEFT, top + 18, length, BAR, kind)
            picture.text(LEFT + length + 6, top + 31, shown(micros), "code")
            top += ROW
        top += 6
    return str(picture)
