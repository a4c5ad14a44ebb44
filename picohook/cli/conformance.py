"""`picohook conformance`, for hooks, and `picohook probe`, for hosts."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..conformance import manifest, probe as probes, report as reports
from ..conformance.report import FAIL, Report
from ..errors import PicohookError
from ..model.stages import STAGES
from ..protocol.raw_line import RawLine
from ..wire.regular_files import read_regular
from . import output
from .source import Json
from .usage import count, seconds

Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit's XML too.", show_default=False)
]

_MARKS = {"pass": "ok", "fail": "FAILED", "skip": "skipped"}


def conformance(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The hook, with its arguments.", show_default=False)
    ],
    *,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this requirement. Can be given more than once.")
    ] = None,
    stages: Annotated[
        str, typer.Option(metavar="A,B", help="Stages that the hook must have; others it may have.")
    ] = "",
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="picoclaw|picohook",
            help="What it is for: PicoClaw, or every stage that there is. Without it, PicoClaw's stages and --stages.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.01), help="How long an answer may take.")
    ] = 5.0,
    jobs: Annotated[int, typer.Option(metavar="N", parser=count, help="Processes of the hook at the same time.")] = 4,
    junit: Junit = None,
    wire: Annotated[
        bool,
        typer.Option(
            "--wire",
            help="Show the raw lines of each requirement on stderr: → what goes to the hook, ← what comes from it.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold a hook to the protocol.

    \b
    picohook conformance -- python3 hook.py

    Runs the command once for each requirement, and talks to it as a host would, and worse. Exits with 0 if every MUST holds.
    """  # noqa: D301 - click wants this character, and not its name
    # The probe, which is in this file too, has to start fast.
    from ..conformance.hook import run  # noqa: PLC0415

    claimed = [stage for stage in stages.replace(",", " ").split() if stage]
    _known("--only", only or [], manifest.load("hook").ids)
    _known("--stages", claimed, STAGES)
    if junit is not None:
        _require_writable(str(junit), "--junit")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and the hooks end, too
    try:
        report = run(
            command,
            only=only or (),
            stages=claimed,
            profile=profile,
            timeout=timeout,
            at_once=jobs,
            seen=_show_lines if wire else None,
        )
    except PicohookError as error:
        raise typer.BadParameter(str(error)) from None
    _conclude(report, junit, as_json=as_json)


def probe(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPORT]", envvar="PICOHOOK_PROBE_REPORT", help="The file of the report.", show_default=False
        ),
    ] = None,
    *,
    show: Annotated[bool, typer.Option("--show", help="Show the report that a probe has written.")] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="REPORT",
            help="With --show: that of another probe of this host. Can be given more than once.",
        ),
    ] = None,
    hold: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds(0.01),
            help="For how long probe_mute and probe_deaf misbehave; otherwise as long as the vectors say.",
            show_default=False,
        ),
    ] = None,
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Be a hook that holds its host to the protocol, and report.

    Configure it as a hook of the host, for all stages and events, have the host make the tool calls of vectors/host.json, and
    look at the report when the host has ended. Without REPORT, what does not hold goes to standard error.
    """
    if not show:
        for option, given in (("--junit", junit), ("--json", as_json), ("--also", also)):
            if given:
                raise typer.BadParameter(f"{option} needs --show")
        if path:
            _require_writable(path, "REPORT")
        probes.serve(path, hold)
        return
    if path is None:
        raise typer.BadParameter("--show needs the REPORT")
    _conclude(reports.merged([_report(one) for one in (path, *(also or ()))]), junit, as_json=as_json)


def _report(path: str) -> Report:
    try:
        return reports.read(json.loads(read_regular(path, _MOST_REPORT)), manifest.load("host"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError):
        raise typer.BadParameter(f"{path} is no report of a probe") from None


_MOST_REPORT = 16 << 20
"""Bytes of a probe's report."""


def _show_lines(lines: Sequence[RawLine]) -> None:
    from . import wiretap  # noqa: PLC0415 - the probe has to start fast

    for line in lines:
        wiretap.show(line)


def _require_writable(path: str, hint: str) -> None:
    """Say that a file cannot be written before there is anything to write."""
    try:
        reports.require_writable(path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint=hint) from None


def _known(option: str, given: list[str], known: Any) -> None:
    for name in given:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r} (there are: {', '.join(known)})", param_hint=option)


def _conclude(report: Report, junit: Path | None, *, as_json: bool) -> None:
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
                output.pairs((("wanted", one.requirement.wants), ("expected", one.expected), ("but", one.said)))
    output.line()
    for line, style in _summary(report):
        output.line(line, style=style)


def _summary(report: Report) -> Iterator[tuple[str, str]]:
    for level in manifest.LEVELS:
        of_level = [one for one in report.results if one.requirement.level == level]
        again = sum(bool(one.same_as) for one in of_level)
        failed = sum(one.status == FAIL for one in of_level) - again
        skipped = sum(one.status == "skip" for one in of_level)
        held = len(of_level) - failed - again - skipped
        more = f" ({again} more for the same cause)" if again else ""
        if of_level:
            yield f"{level}: {held} hold, {failed} do not{more}, {skipped} skipped", ""
    if not report.complete:
        yield "The host had not ended the probe when this was written.", "bold yellow"
    yield ("conforming", "bold green") if report.ok else ("not conforming", "bold red")
