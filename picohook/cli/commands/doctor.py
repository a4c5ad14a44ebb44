"""`picohook doctor`: find out whether hooks work here, and what to do if not."""

import logging
import os
import sys
import threading
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ... import extensions
from .. import output
from ..command import App, Json, Verbose, reads_files, seconds
from ..configuration import AlsoNamed, either
from ..doctor.examine import examinations, examine
from ..doctor.findings import Finding, Level, count
from ..host import in_loop

app = App()
_STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "bold yellow", Level.ERROR: "bold red"}


@app.command()
@reads_files
def doctor(
    context: typer.Context,
    place: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR|CONFIG]", help="A project, or one configuration. Default: this directory."),
    ] = None,
    *,
    named: AlsoNamed = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="How long each hook may take.")
    ] = 10.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Find out whether hooks work here, and what to do if not.

    Checks the machine, the configurations, their permissions and trust. Starts each hook, and greets it. Asks each gate about
    its canary, a call that it must deny. Tries the servers of [nats] for what their keys must not do. Does not run hooks of a
    project that is not trusted. Exits with 1 if there are errors.
    """
    if not verbose:
        logging.getLogger("picohook").setLevel(logging.CRITICAL + 1)  # the findings report what hooks do wrong
    place = either(place, named)
    if place is not None and not place.exists():
        raise typer.BadParameter(f"there is no {place}")
    is_file = named is not None or (place is not None and not place.is_dir())
    config, directory = (place, None) if is_file else (None, place)
    findings: list[Finding] = []

    def give_up() -> NoReturn:
        _show(findings, as_json=as_json)
        os._exit(1)

    more = [*(one.row.doctor.load() for one in extensions.usable() if one.row.doctor), *examinations(context)]
    work = partial(examine, findings, config, directory, more, time_limit=timeout, give_up=give_up)
    in_loop(work)
    _end(findings, as_json=as_json)


def _end(findings: list[Finding], *, as_json: bool) -> None:
    """Print the findings and exit, without waiting for threads of Python hooks that never end."""
    _show(findings, as_json=as_json)
    code = int(count(findings)[Level.ERROR] > 0)
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.current_thread()):
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)


def _show(findings: list[Finding], *, as_json: bool) -> None:
    counts = count(findings)
    if as_json:
        output.data(
            {
                "ok": not counts[Level.ERROR],
                "counts": counts,
                "findings": [finding.wire() for finding in findings],
            }
        )
        return
    for subject, group in groupby(findings, key=lambda finding: finding.about):
        output.line(subject, style="bold")
        rows = []
        for finding in group:
            rows.append((finding.level.value, f"{finding.check}: {finding.message}"))
            if finding.hint:
                rows.append(("", f"→ {finding.hint}"))
        output.pairs(rows, styles={level.value: style for level, style in _STYLES.items()})
    output.line()
    amounts = [
        f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}"
        for level in (Level.ERROR, Level.WARNING, Level.NOTE)
        if counts[level]
    ]
    worst = next((level for level in reversed(Level) if counts[level]), Level.OK)
    output.line(", ".join(amounts) or "all is well", style=_STYLES[worst])
