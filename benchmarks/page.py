"""The figures as a table in the docs, in the place that is marked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .measure import Row

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"
WHOLE = 100
"""From here on a time is shown without a fraction."""
MISSED = "\nWhat is missed:\n\n"
HEAD = "| measure | | must | aim | |\n|---|---|---|---|---|\n"


def renew(page: Path, rows: Sequence[Row]) -> None:
    """Put the table, and what is missed in words, where the old ones are."""
    text = page.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    missed = "".join(f"- {row.missed}\n" for row in rows if row.missed)
    page.write_text(before + HEAD + "".join(map(_line, rows)) + (MISSED + missed if missed else "") + after)


def _line(row: Row) -> str:
    bounds = " | ".join("" if bound is None else f"{bound:g}" for bound in (row.must, row.aim))
    times = ", ".join(
        f"{name.removesuffix('_us').removesuffix('_ms').removesuffix('_per_s').replace('_', ' ')} {_shown(name, value)}"
        for name, value in row.detail.items()
    )
    value = f"{row.value:.2f} {row.unit}".removesuffix(" x").strip()
    return f"| {row.measure} | {f'**{value}**' if row.verdict == 'missed' else value} | {bounds} | {times} |\n"


def _shown(name: str, value: float) -> str:
    for suffix, unit in (("_us", "µs"), ("_ms", "ms")):
        if name.endswith(suffix):
            return f"{value:.1f} {unit}" if value < WHOLE else f"{value:,.0f} {unit}"
    return f"{value:,}/s" if name.endswith("_per_s") else f"{value:.2f}"
