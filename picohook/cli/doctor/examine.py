"""Examines the machine, the configurations and their hooks, in that order."""

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeAlias

import anyio
import typer

from ... import extensions
from ...errors import ConfigError, TrustError
from ...projects import layers, trust
from ...projects.layers import Layers
from ..command import GIVEN
from . import files, gates, hooks, machine, programs
from .findings import Finding, Level, about

Examination: TypeAlias = Callable[[Layers], AsyncIterator[Finding]]
"""Yields findings about the configurations that may run."""

_BEAT = 1.0
"""Seconds after which the event loop shows again that it runs."""
_ROUND = 5.0
"""The least seconds that it gets for that, since the machine may be busy."""


def examinations(context: typer.Context) -> list[Examination]:
    """Further examinations of `picohook doctor`. The functions of options add to it."""
    found: list[Examination] = context.meta.setdefault("picohook.doctor", [])
    return found


async def examine(
    findings: list[Finding],
    config: Path | None,
    directory: Path | None,
    more: Iterable[Examination],
    *,
    time_limit: float,
    give_up: Callable[[], NoReturn],
) -> None:
    """Add findings about `config` alone, or about the configurations in `directory`, to `findings`, and those of `more`.

    Call `give_up` if a hook in this process blocks the event loop.
    """
    findings += [finding async for finding in machine.examine(time_limit)]
    findings += [
        Finding(Level.WARNING, one.package, "extension", one.why, "update this package, or uninstall it")
        for one in extensions.others()[1]
    ]
    try:
        found = layers.named(config, given=GIVEN) if config else layers.discover(directory, given=GIVEN)
    except ConfigError as error:
        findings += files.mistakes(error)
        return
    findings += files.examine(found)
    trusted = _trusted(found)
    may_run = replace(
        found,
        configs=tuple(config for config in found.configs if str(config.path) in trusted),
        hooks=tuple(spec for spec in found.hooks if spec.source in trusted),
    )
    for examination in more:
        findings += [finding async for finding in examination(may_run)]
    await _examine_hooks(findings, found, trusted, time_limit, give_up)


async def _examine_hooks(
    findings: list[Finding], found: Layers, trusted: set[str], time_limit: float, give_up: Callable[[], NoReturn]
) -> None:
    """Add findings about each hook: its programs, a trial if it is trusted, and its settings as a gate."""
    dialects = {str(one.path): one.dialect for one in found.configs}
    programs_of = {spec.name: list(programs.examine(spec, may_run=spec.source in trusted)) for spec in found.hooks}
    errors = {
        name for name, of in programs_of.items() for one in of if (one.check, one.level) == ("command", Level.ERROR)
    }
    to_try = [
        spec for spec in found.hooks if spec.source in trusted and (spec.kind == "handlers" or spec.name not in errors)
    ]
    in_process = [spec.name for spec in to_try if spec.python is not None]

    def blocked() -> NoReturn:
        whose = f"hook {', '.join(in_process)}"
        message = "it blocks the event loop of its process: a host would hang"
        hint = "make its functions plain ones, which run in threads, or let them await; or make it a process"
        findings.append(Finding(Level.ERROR, whose, "start", message, hint))
        give_up()

    async with anyio.create_task_group() as tasks:
        if in_process:
            tasks.start_soon(_watch, blocked, time_limit)
        tried = await hooks.try_all(to_try, found, time_limit)
        tasks.cancel_scope.cancel()
    for spec in found.hooks:
        findings += programs_of[spec.name]
        findings += tried.get(spec.name, ())
        if spec.source not in trusted:
            message = "it was not started: its configuration is not trusted"
            findings.append(Finding(Level.NOTE, about(spec), "start", message, "picohook trust, then look again"))
        findings += gates.settings(spec, dialects[spec.source])


def _trusted(found: Layers) -> set[str]:
    """Returns the configuration files that are trusted."""
    files = set()
    for config in found.configs:
        with contextlib.suppress(TrustError):
            trust.require_trust(config)
            files.add(str(config.path))
    return files


async def _watch(blocked: Callable[[], NoReturn], time_limit: float) -> None:
    """Call `blocked`, in a thread, if a Python hook blocks the event loop. Code on that loop could not report it."""
    while True:
        timer = threading.Timer(max(time_limit, _ROUND), blocked)
        timer.daemon = True
        timer.start()
        try:
            await anyio.sleep(_BEAT)
        finally:
            timer.cancel()
