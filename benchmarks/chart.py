"""The ratios as a picture: each bar against what it must be."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measure import Row

HEIGHT, LABEL, WIDTH, FIGURE, MARGIN = 22, 520, 320, 140, 16
COLOURS = {"aim": "#2a7f62", "must": "#7fa650", "missed": "#b5493c"}
MEANINGS = {"aim": "as good as it is meant to be", "must": "as good as it must be", "missed": "not yet"}


def draw(rows: Sequence[Row]) -> str:
    """An SVG: a bar as long as the value is of its bound, and a line where the bound is."""
    bounded = [row for row in rows if row.must]
    bottom = MARGIN + HEIGHT * len(bounded)
    bound = LABEL + WIDTH / 2
    size = f'width="{LABEL + WIDTH + FIGURE}" height="{bottom + 2 * HEIGHT + MARGIN}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, row in enumerate(bounded):
        assert row.must
        top = MARGIN + HEIGHT * place
        share = row.must / row.value if row.more_is_better and row.value else row.value / row.must
        length = min(share, 2.0) * WIDTH / 2
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(row.measure)}</text>'
            f'<rect x="{LABEL}" y="{top + 4}" width="{length:.1f}" height="{HEIGHT - 8}" fill="{COLOURS[row.verdict]}"/>'
            f'<text x="{LABEL + WIDTH}" y="{top + 15}">{row.value:.2f} {row.unit}, must {row.must:g}</text>'
        )
    parts.append(
        f'<line x1="{bound}" x2="{bound}" y1="{MARGIN}" y2="{bottom}" stroke="#333" stroke-dasharray="3 3"/>'
        f'<text x="{bound}" y="{bottom + 16}" text-anchor="middle">what it must be</text>'
    )
    for place, (verdict, meaning) in enumerate(MEANINGS.items()):
        left, top = MARGIN + 220 * place, bottom + HEIGHT
        parts.append(
            f'<rect x="{left}" y="{top + 4}" width="14" height="14" fill="{COLOURS[verdict]}"/>'
            f'<text x="{left + 20}" y="{top + 15}">{meaning}</text>'
        )
    return "".join(parts) + "</svg>\n"
