"""The ratios as a picture: each bar against what it must be."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measure import Row

HEIGHT, LABEL, WIDTH, MARGIN = 22, 520, 360, 16
COLOURS = {"aim": "#2a7f62", "must": "#7fa650", "missed": "#b5493c"}


def draw(rows: Sequence[Row]) -> str:
    """An SVG: a bar as long as the value is of its bound, and a line where the bound is."""
    bounded = [row for row in rows if row.must]
    height = 2 * MARGIN + HEIGHT * (len(bounded) + 1)
    bound = LABEL + WIDTH / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 120}" height="{height}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    )
    parts = [head]
    for place, row in enumerate(bounded):
        assert row.must
        top = MARGIN + HEIGHT * place
        share = row.must / row.value if row.more_is_better and row.value else row.value / row.must
        length = min(share, 2.0) * WIDTH / 2
        colour = COLOURS[row.verdict]
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(row.measure)}</text>'
            f'<rect x="{LABEL}" y="{top + 4}" width="{length:.1f}" height="{HEIGHT - 8}" fill="{colour}"/>'
            f'<text x="{LABEL + length + 6:.1f}" y="{top + 15}">{row.value:.2f} {row.unit}</text>'
        )
    bottom = MARGIN + HEIGHT * len(bounded)
    parts.append(
        f'<line x1="{bound}" x2="{bound}" y1="{MARGIN}" y2="{bottom}" stroke="#333" stroke-dasharray="3 3"/>'
        f'<text x="{bound}" y="{bottom + 16}" text-anchor="middle">the most it may be</text></svg>'
    )
    return "".join(parts) + "\n"
