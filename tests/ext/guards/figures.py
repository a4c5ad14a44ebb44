"""The figures of docs/reference/guards-measured.md, made from the corpus. Run as a program, this writes them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import guard_corpus

from picohook.ext.guards.judge import ALL, Judge
from picohook.ext.guards.measure import Example, Measure, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from picohook.ext.guards.measure import Rates

PAGE = Path(__file__).parents[3] / "docs/reference/guards-measured.md"
BEGIN, END = "<!-- made by tests/ext/guards/figures.py -->\n", "<!-- made until here -->\n"


def measured() -> Measure:
    """Returns what the judge of all packs decides about the corpus."""
    return measure(Judge(ALL), map(Example.model_validate, guard_corpus.rows()))


def table(title: str, rows: dict[str, Rates]) -> Iterator[str]:
    """Yields the lines of a table of rates."""
    yield f"| {title} | harmful | caught | cannot be undone | harmless | denied | asked |"
    yield "|---|---|---|---|---|---|---|"
    for name, rates in rows.items():
        shown = [
            f"{share} %" if share is not None else ""
            for share in (rates.caught, rates.irreversible, rates.denied, rates.asked)
        ]
        yield f"| {name} | {rates.harmful or ''} | {shown[0]} | {shown[1]} | {rates.harmless or ''} | {shown[2]} | {shown[3]} |"
    yield ""


def text(found: Measure) -> str:
    """Returns the part of the page that is made."""
    lines = ["", *table("pack", {**found.by("pack"), "**all**": found.rates()}), *table("source", found.by("source"))]
    by_hand = [(call, verdict) for call, verdict in found.wrong if not call.source.endswith("dressed")]
    others = Counter(call.label for call, _ in found.wrong if call.source.endswith("dressed"))
    for label, title in (("harmful", "Harmful calls that pass"), ("harmless", "Harmless calls that are stopped")):
        rows = [(call, verdict) for call, verdict in by_hand if call.label == label]
        lines += [
            f"### {title}",
            "",
            f"{len(rows)} as they were written, and {others[label]} of those in other clothes:",
            "",
        ]
        lines += [
            f"- {call.pack}: {shown(call)}{'' if label == 'harmful' else f' ({verdict.decision}, `{verdict.rule}`)'}"
            for call, verdict in rows
        ]
        lines.append("")
    return "\n".join(lines)


def shown(called: Example) -> str:
    """Returns the call as code, in one line."""
    line = called.shown.replace("\n", "\\n")
    fence = "``" if "`" in line else "`"
    return f"{fence}{' ' if fence == '``' else ''}{line}{' ' if fence == '``' else ''}{fence}"


def whole(page: str, found: Measure) -> str:
    """Returns the page with these figures."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + text(found) + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(whole(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
