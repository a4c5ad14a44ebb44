"""`picohook replay`: what a record says was asked, asked again."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config.layers import Layers
from ..errors import HookCrashedError, PicohookError
from ..record.form import FACTS
from ..record.reader import RecordError
from ..record.replay import Compared, Replay, choose, survey
from ..spec import Timeouts
from . import outcomes, output
from .records import about, damaged, open_record, require_rereadable, warn_of_end
from .source import Json, Named, Record, Verbose, configured, with_hooks

if TYPE_CHECKING:
    from ..host import Host
    from ..record.replay import Known

_LONG = 1e6
"""Seconds. A hook that is asked alone has its own timeout, and no chain's budget."""
_MAY_BE_IGNORED = tuple(fact for fact in FACTS if fact not in {"action", "failed"})


@dataclass
class _Tally:
    compared: int = 0
    changed: int = 0
    ignored: list[str] = field(default_factory=list)
    as_json: bool = False

    def take(self, one: Compared) -> None:
        self.compared += 1
        differing = list(one.differences(self.ignored))
        if differing:
            self.changed += 1
            (_print_json if self.as_json else _show)(one, differing)


def replay(
    record_file: Annotated[
        str, typer.Argument(metavar="RECORD", help="What --record has written.", show_default=False)
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="A hook, alone.", show_default=False)
    ] = None,
    *,
    config: Named = None,
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook",
            metavar="NAME",
            help="With a COMMAND: whose questions it is asked; needed where the record has several hooks.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help=f"No difference: {', '.join(_MAY_BE_IGNORED)}. Can be given more than once."),
    ] = None,
    record: Record = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask again what was asked in a record, and show which decisions have changed.

    \b
    picohook replay session.jsonl --config picohook.toml
    picohook replay session.jsonl --hook guard -- node guard.mjs

    Every chain is asked of the configuration's hooks; or, of one hook, every question of its COMMAND. One after another, in the
    order of the record, events included. Exits with 0 if all decisions are the same, and with 1 if one is not.
    """  # noqa: D301 - click wants this character, and not its name
    del verbose
    for name in ignore or ():
        if name not in _MAY_BE_IGNORED:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(_MAY_BE_IGNORED)}", param_hint="--ignore")
    if command and config is not None:
        raise typer.BadParameter("give a --config, or a COMMAND")
    if hook is not None and not command:
        raise typer.BadParameter("--hook goes with a COMMAND: what a hook was asked is asked of that")
    known = _survey(record_file)
    if record is not None and record.exists() and os.path.samefile(record, record_file):
        raise typer.BadParameter("it is what is replayed", param_hint="--record")
    tally, again = _Tally(ignored=ignore or [], as_json=as_json), Replay()
    layers, timeouts, ask = None, None, again.chains
    if command:
        chosen = _chosen(known, hook)
        layers = Layers(hooks=(known[chosen].stand_in(chosen, command),))
        timeouts, ask = Timeouts(chain=_LONG), partial(again.of_hook, chosen)

    async def work(host: "Host") -> None:
        async for one in ask(open_record(record_file), host):
            tally.take(one)

    try:
        with_hooks(layers or configured(config), work, record=record, witnesses=[again.witness], timeouts=timeouts)
    except HookCrashedError as error:
        if not command:
            raise
        raise typer.BadParameter(str(error), param_hint="COMMAND") from None
    _conclude(tally, again.unanswered)


def _survey(name: str) -> "dict[str, Known]":
    source = open_record(name)
    require_rereadable(name)
    try:
        known = survey(source)
    except RecordError as error:
        raise damaged(error) from None
    warn_of_end(source, name)
    return known


def _chosen(known: "dict[str, Known]", hook: str | None) -> str:
    try:
        return choose(known, hook)
    except PicohookError as error:
        raise typer.BadParameter(str(error), param_hint="--hook") from None


def _show(one: Compared, differing: list[str]) -> None:
    output.line(f"line {one.line}: {one.stage.name}: {about(one.stage, one.params)}", style="bold red")
    output.pairs(_facts(one, differing))
    output.line()


def _facts(one: Compared, differing: list[str]) -> Iterator[tuple[str, str]]:
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


def _print_json(one: Compared, differing: list[str]) -> None:
    changed = {
        fact: dict(zip(("recorded", "replayed"), one.payloads(), strict=True))
        if fact == "payload"
        else {"recorded": one.recorded.get(fact), "replayed": one.replayed.get(fact)}
        for fact in differing
    }
    shown: dict[str, Any] = {"line": one.line, "stage": one.stage.name, "params": one.params, "changed": changed}
    if one.errors:
        shown["errors"] = one.errors
    if one.hook:
        shown["hook"] = one.hook
    else:
        shown["hooks"] = {name: {"recorded": was, "replayed": now} for name, (was, now) in one.hooks.items()}
    output.data(shown)


def _conclude(tally: _Tally, unanswered: int) -> None:
    if tally.as_json:
        output.data({"decisions": tally.compared, "changed": tally.changed, "unanswered": unanswered})
    else:
        extra = f", and {unanswered} that the record has no answer to" if unanswered else ""
        text = f"{tally.compared} decisions, {tally.changed} changed{extra}"
        output.line(text, style="bold red" if tally.changed else "bold green")
    if not tally.compared:
        output.error("the record has no decision that could be compared")
    if tally.changed or not tally.compared:
        raise typer.Exit(1)
