"""The report of `picohook conformance` and `picohook probe --show`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ..conformance import manifest, report as reports
from ..conformance.report import FAIL, PASS, SKIP, UNTRIED, Report
from . import output

Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit's XML.")]

_MARKS = {"pass": "ok", "fail": "FAILED", "skip": "skipped", "untried": "not tried"}


def require_writable(path: str, hint: str) -> None:
    """Raise `typer.BadParameter` if the file could not be written later."""
    try:
        reports.require_writable(path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint=hint) from None


def conclude(report: Report, junit: Path | None, *, as_json: bool) -> None:
    """Print the report, and write JUnit's XML if asked. Raises `typer.Exit` if a MUST does not hold."""
    if junit is not None:
        try:
            reports.save(str(junit), reports.junit(report))
        except OSError as error:
            raise typer.BadParameter(f"{junit} cannot be written: {error.strerror}", param_hint="--junit") from None
    if as_json:
        output.data(report.wire())
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    output.table(
        ("requirement", "level", "", ""),
        (
            (one.requirement.id, one.requirement.level, _MARKS[one.status], one.requirement.title)
            for one in report.results
        ),
    )
    for one in report.results:
        if one.status == FAIL:
            output.line()
            output.line(
                f"{one.requirement.id} ({one.requirement.level}): {one.requirement.title}",
                style="bold red" if one.broken else "bold yellow",
            )
            if one.same_as:
                output.pairs((("but", f"the same cause as {one.same_as}"),))
            else:
                expected = [("expected", one.expected)] if one.expected != one.requirement.wants else []
                output.pairs((("wanted", one.requirement.wants), *expected, ("but", one.said)))
    output.line()
    for line, style in _summary(report):
        output.line(line, style=style)


def _summary(report: Report) -> Iterator[tuple[str, str]]:
    for level in manifest.LEVELS:
        of_level = (one for one in report.results if one.requirement.level == level)
        counts = Counter("again" if one.same_as else one.status for one in of_level)
        more = f" ({counts['again']} more for the same cause)" if counts["again"] else ""
        rest = f", {counts[UNTRIED]} not tried" if counts[UNTRIED] else ""
        if counts:
            yield f"{level}: {counts[PASS]} hold, {counts[FAIL]} do not{more}, {counts[SKIP]} skipped{rest}", ""
    untried: dict[str, list[str]] = {}
    for one in report.results:
        if one.status == UNTRIED:
            untried.setdefault(one.said, []).append(one.requirement.id)
    for said, names in untried.items():
        yield f"not tried, since {said}: {', '.join(names)}", "bold yellow"
    if not report.complete:
        yield "This report is not complete: the host did not close the probe's input, or has not yet.", "bold yellow"
    yield ("conforming", "bold green") if report.ok else ("not conforming", "bold red")
