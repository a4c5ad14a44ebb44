"""What `picohook replay` does: ask again, and show what is not as it was."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..config.hooks import PicoClaw
from ..config.layers import Layers
from ..errors import HookCrashedError, PicohookError
from ..model.spec import Timeouts
from ..record.replay import Comparison, Replay, choose_hook, recorded_hooks
from . import outcomes, output
from .configs import program
from .records import about, opened, require_rereadable, warn_of_end
from .source import configured, with_hooks

if TYPE_CHECKING:
    from ..host import Host
    from ..record.replay import RecordedHook

_LONG = 1e6
"""Seconds. A hook that is asked alone has its own timeout, and no chain's budget."""


@dataclass
class Tally:
    """What is compared, and how it came out."""

    ignored: list[str]
    as_json: bool
    compared: int = 0
    changed: int = 0

    def take(self, one: Comparison) -> None:
        """One more decision."""
        self.compared += 1
        differing = list(one.differences(self.ignored))
        if differing:
            self.changed += 1
            (_print_json if self.as_json else _show)(one, differing)


def run(
    name: str,
    tally: Tally,
    *,
    command: list[str] | None,
    hook: str | None,
    config: Path | None,
    picoclaw: PicoClaw | None,
    record: Path | None,
) -> None:
    """Replay it. Ends in `typer.Exit` where not all is as it was."""
    known = _survey(name)
    if record is not None and record.exists() and os.path.samefile(record, name):
        raise typer.BadParameter("it is what is replayed", param_hint="--record")
    again = Replay()
    timeouts, ask = None, again.chains
    if command:
        chosen = _chosen(known, hook)
        stand_in = known[chosen].stand_in(chosen, command)
        try:
            program(stand_in)  # which a host would say in its log, too
        except HookCrashedError as error:
            raise typer.BadParameter(str(error), param_hint="COMMAND") from None
        layers = Layers(hooks=(stand_in,))
        timeouts, ask = Timeouts(chain=_LONG), partial(again.of_hook, chosen)
    else:
        layers = configured(config, picoclaw)

    async def work(host: "Host") -> None:
        with opened(name) as source:
            async for one in ask(source, host):
                tally.take(one)

    try:
        with_hooks(layers, work, record=record, seen_by=[again.listener], timeouts=timeouts)
    except HookCrashedError as error:
        if not command:
            raise
        raise typer.BadParameter(str(error), param_hint="COMMAND") from None
    _conclude(tally, again.unanswered)


def _survey(name: str) -> "dict[str, RecordedHook]":
    with opened(name) as source:
        require_rereadable(name)
        known = recorded_hooks(source)
    warn_of_end(source, name)
    return known


def _chosen(known: "dict[str, RecordedHook]", hook: str | None) -> str:
    try:
        return choose_hook(known, hook)
    except PicohookError as error:
        raise typer.BadParameter(str(error), param_hint="--hook") from None


def _show(one: Comparison, differing: list[str]) -> None:
    output.line(f"line {one.line_number}: {one.stage.name}: {about(one.stage, one.params)}", style="bold red")
    output.pairs(_facts(one, differing))
    output.line()


def _facts(one: Comparison, differing: list[str]) -> Iterator[tuple[str, str]]:
    yield from ((name, f"{was} → {now}") for name, (was, now) in one.hooks.items())
    for fact in differing:
        was, now = one.payloads() if fact == "payload" else (one.recorded.get(fact), one.replayed.get(fact))
        if isinstance(was, dict) and isinstance(now, dict):
            for change in outcomes.changes(was, now):
                yield fact, change
        else:
            yield fact, f"{_said(was)} → {_said(now)}"
    yield from (("error", f"{error} ({name})") for name, error in one.errors.items())


def _said(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else outcomes.shown(value)


def _print_json(one: Comparison, differing: list[str]) -> None:
    changed = {
        fact: dict(zip(("recorded", "replayed"), one.payloads(), strict=True))
        if fact == "payload"
        else {"recorded": one.recorded.get(fact), "replayed": one.replayed.get(fact)}
        for fact in differing
    }
    shown: dict[str, Any] = {"line": one.line_number, "stage": one.stage.name, "params": one.params, "changed": changed}
    if one.errors:
        shown["errors"] = one.errors
    if one.hook:
        shown["hook"] = one.hook
    else:
        shown["hooks"] = {name: {"recorded": was, "replayed": now} for name, (was, now) in one.hooks.items()}
    output.data(shown)


def _conclude(tally: Tally, unanswered: int) -> None:
    if tally.as_json:
        output.data({"decisions": tally.compared, "changed": tally.changed, "unanswered": unanswered})
    else:
        extra = f", and {unanswered} that the record has no answer to" if unanswered else ""
        plural = "" if tally.compared == 1 else "s"
        text = f"{tally.compared} decision{plural}, {tally.changed} changed{extra}"
        output.line(text, style="bold red" if tally.changed else "bold green")
    if not tally.compared:
        output.error("the record has no decision that could be compared")
    if tally.changed or not tally.compared:
        raise typer.Exit(1)
