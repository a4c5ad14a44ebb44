"""`picohook doctor`: whether hooks will work here, by trying them, and what to do where they will not.

    findings    what is found: ok, note, warning, error, and a way out
    machine     what this machine can hold hooks with
    files       configurations: permissions, trust, environment
    programs    the programs that hooks come to
    hooks       each hook, started and greeted
    gates       hooks that decide about tool calls, and their canaries

They are imported when they are needed: they run hosts, which most commands do not.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ...config import layers, trust
from ...config.document import PicoClaw
from ...config.layers import Layers
from ...errors import ConfigError, TrustError
from .. import output
from ..source import AlsoNamed, AsPicoClaw, Json, Verbose, either, in_loop, require_file
from ..usage import seconds
from .findings import Finding, Level, about, count

_BEAT = 1.0
"""Seconds from one look at the event loop to the next."""
_ROUND = 5.0
"""Seconds that it may take to come round, at least: the machine may be busy."""
_STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "bold yellow", Level.ERROR: "bold red"}


def doctor(
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR|CONFIG]",
            help="The project, or the configuration alone, to look at; without it, this directory.",
            show_default=False,
        ),
    ] = None,
    *,
    named: AlsoNamed = None,
    picoclaw: AsPicoClaw = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="How long a hook may take, at most.")
    ] = 10.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Find out whether hooks work here, and what to do if not.

    Looks at the machine, the configurations, their permissions and trust; starts each hook for real and greets it; and asks
    each gate about its canary, a call that it must deny. Hooks of a project that is not trusted are not run. Exits with 1
    if there are errors.
    """
    if not verbose:
        logging.getLogger("picohook").setLevel(logging.CRITICAL + 1)  # what hooks do wrong is what this reports
    place = either(place, named)
    if place is not None and not place.exists():
        raise typer.BadParameter(f"there is no {place}")
    is_file = named is not None or (place is not None and not place.is_dir())
    config, directory = (place, None) if is_file else (None, place)
    findings: list[Finding] = []
    in_loop(lambda: _examine(findings, config, directory, timeout, picoclaw, as_json=as_json))
    _end(findings, as_json=as_json)


async def _examine(
    findings: list[Finding],
    config: Path | None,
    directory: Path | None,
    patience: float,
    picoclaw: PicoClaw | None,
    *,
    as_json: bool,
) -> None:
    from . import files, gates, hooks, machine, programs  # noqa: PLC0415 - most commands start nothing

    findings += [finding async for finding in machine.examine(patience)]
    try:
        if config:
            found = layers.named(require_file(config), picoclaw=picoclaw)
        else:
            found = layers.discover(directory, picoclaw=picoclaw)
    except ConfigError as error:
        findings += files.mistakes(error)
        return
    if not found.configs:
        where = str((directory or Path()).absolute())
        hint = "write one, or have a hook made with its configuration: picohook new DIR"
        findings.append(
            Finding(Level.WARNING, where, "configuration", "there is none here, and none of your own", hint)
        )
    findings += files.examine(found)
    dialects = {str(one.path): one.dialect for one in found.configs}
    trusted = _trusted(found)
    programs_of = {spec.name: list(programs.examine(spec, may_run=spec.source in trusted)) for spec in found.hooks}
    to_try = [
        spec
        for spec in found.hooks
        if spec.source in trusted and not any(map(_keeps_from_starting, programs_of[spec.name]))
    ]

    pythons = [spec.name for spec in to_try if spec.python is not None]

    def give_up() -> NoReturn:
        whose = f"hook {', '.join(pythons)}"
        message = "it holds up the process that it is in: a host would hang"
        hint = "make its functions plain ones, which run in threads, or have them await; or make it a process"
        findings.append(Finding(Level.ERROR, whose, "start", message, hint))
        _show(findings, as_json=as_json)
        os._exit(1)

    with _Watchdog(give_up, patience) if pythons else contextlib.nullcontext():
        tried = await hooks.try_all(to_try, found, patience)
    for spec in found.hooks:
        findings += programs_of[spec.name]
        findings += tried.get(spec.name, ())
        if spec.source not in trusted:
            message = "it was not started: its configuration is not trusted"
            findings.append(Finding(Level.NOTE, about(spec), "start", message, "picohook trust, then look again"))
        findings += gates.settings(spec, dialects[spec.source])


def _keeps_from_starting(finding: Finding) -> bool:
    return finding.check == "command" and finding.level is Level.ERROR


def _trusted(found: Layers) -> set[str]:
    """The files that somebody consented to."""
    files = set()
    for config in found.configs:
        try:
            trust.require_trust(config)
        except TrustError:
            continue
        files.add(str(config.path))
    return files


def _end(findings: list[Finding], *, as_json: bool) -> None:
    """Print it, and end, also over threads of Python hooks that never end."""
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


class _Watchdog(threading.Thread):
    """Ends the command where code of a Python hook's own holds up the event loop, which nothing inside of that can."""

    def __init__(self, give_up: Callable[[], NoReturn], patience: float) -> None:
        super().__init__(daemon=True)
        self._give_up = give_up
        self._patience = max(patience, _ROUND)
        self._over = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.wait(_BEAT):
            beat = threading.Event()
            self._loop.call_soon_threadsafe(beat.set)
            if not beat.wait(self._patience):
                self._give_up()
