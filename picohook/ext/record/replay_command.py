"""`picohook replay`: ask the questions of a record again, and compare the decisions."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import outcomes, output
from ...cli.command import App, Json, Verbose, reads_files
from ...cli.configuration import Named, configured, program
from ...cli.host import with_hooks
from ...errors import HookCrashedError, PicohookError
from ...host import Host
from ...model.spec import Timeouts
from ...projects.layers import Layers
from .records import about, opened, require_rereadable, warn_of_end
from .replay import Comparison, RecordedHook, Replay, choose_hook, recorded_hooks

app = App()

_MAY_BE_IGNORED = ("reason", "feedback", "result", "notes", "payload")
_LONG = 1e6
"""Seconds for a chain. A hook that is asked alone has its own timeout, and no timeout of a chain."""


@app.command()
@reads_files
def replay(
    record_file: Annotated[
        str, typer.Argument(metavar="RECORD", help="A file that --record has written.", show_default=False)
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Ask this hook alone.", show_default=False),
    ] = None,
    *,
    config: Named = None,
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook",
            metavar="NAME",
            help="With a COMMAND: ask it the questions of this hook. Needed if the record has several hooks.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help=f"Ignore this difference: {', '.join(_MAY_BE_IGNORED)}. Can be given more than once.",
            autocompletion=lambda: list(_MAY_BE_IGNORED),
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all questions and answers there, as a record.", show_default=False),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask the questions of a record again, and compare.

    \b
    picohook replay session.jsonl --config picohook.toml
    picohook replay session.jsonl --hook guard -- node guard.mjs

    Shows the decisions that changed. Asks the hooks of the configuration every question of the record, or asks a COMMAND every
    question that one hook got. Follows the order of the record, with its events, one question at a time. Exits with 0 if all
    decisions are the same, and with 1 if one is not.
    """  # noqa: D301 - click reads a backspace character, not an escape
    del verbose
    for name in ignore or ():
        if name not in _MAY_BE_IGNORED:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(_MAY_BE_IGNORED)}", param_hint="--ignore")
    if command and config is not None:
        raise typer.BadParameter("give a --config, or a COMMAND")
    if hook is not None and not command:
        raise typer.BadParameter("--hook needs a COMMAND, which is asked the questions of that hook")
    tally = Tally(ignore or [], as_json)
    _run(record_file, tally, command=command, hook=hook, config=config, record=record)


@dataclass
class Tally:
    """Counts the decisions that were compared, and shows those that changed."""

    ignored: list[str]
    as_json: bool
    compared: int = 0
    changed: int = 0

    def take(self, one: Comparison) -> None:
        """Count a decision, and show it if it changed."""
        self.compared += 1
        differing = list(one.differences(self.ignored))
        if differing:
            self.changed += 1
            (_print_json if self.as_json else _show)(one, differing)


def _run(
    name: str,
    tally: Tally,
    *,
    command: list[str] | None,
    hook: str | None,
    config: Path | None,
    record: Path | None,
) -> None:
    """Replay a record. Raises `typer.Exit` if a decision changed."""
    known = _survey(name)
    if record is not None and record.exists() and os.path.samefile(record, name):
        raise typer.BadParameter("this is the record that is replayed: name another file", param_hint="--record")
    again = Replay()
    timeouts, ask = None, again.chains
    if command:
        chosen = _chosen(known, hook)
        stand_in = known[chosen].stand_in(chosen, command)
        try:
            program(stand_in)  # raises an error that a host would only log
        except HookCrashedError as error:
            raise typer.BadParameter(str(error), param_hint="COMMAND") from None
        layers = Layers(hooks=(stand_in,))
        timeouts, ask = Timeouts(chain=_LONG), partial(again.of_hook, chosen)
    else:
        layers = configured(config)

    async def work(host: Host) -> None:
        with opened(name) as source:
            async for one in ask(source, host):
                tally.take(one)

    try:
        with_hooks(layers, work, record=record, more_listeners=[again.listener], timeouts=timeouts)
    except HookCrashedError as error:
        if not command:
            raise
        raise typer.BadParameter(str(error), param_hint="COMMAND") from None
    _conclude(tally, again.unanswered)


def _survey(name: str) -> dict[str, RecordedHook]:
    with opened(name) as source:
        require_rereadable(name)
        known = recorded_hooks(source)
    warn_of_end(source, name)
    return known


def _chosen(known: dict[str, RecordedHook], hook: str | None) -> str:
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
        extra = f", and {unanswered} without an answer in the record" if unanswered else ""
        plural = "" if tally.compared == 1 else "s"
        text = f"{tally.compared} decision{plural}, {tally.changed} changed{extra}"
        output.line(text, style="bold red" if tally.changed else "bold green")
    if not tally.compared:
        output.error("the record has no decision to compare")
    if tally.changed or not tally.compared:
        raise typer.Exit(1)
