"""`picohook history`: the past tool calls of agents on this machine."""

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from .past import History
from .redact import redacted
from .transcripts import AGENTS, OUTCOMES, PastCall, seconds_of
from .unasked import KNOWN, UNASKED, audited

app = App()
_SHOWN = 3
_SECONDS = {"d": 86400, "h": 3600, "m": 60}


def since_of(text: str) -> float:
    """Returns the seconds since 1970 of `30d`, `12h` or a date. Raises `typer.BadParameter`."""
    match = re.fullmatch(r"(\d{1,6})([dhm])", text)
    found = time.time() - int(match[1]) * _SECONDS[match[2]] if match else seconds_of(text)
    if not found:
        raise typer.BadParameter(
            f"{text!r} is not a time: give days, hours or minutes before now, such as 30d, or a date, 2026-01-31"
        )
    return found


Since = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=since_of,
        help="Only calls since then: 30d, 12h, or a date such as 2026-01-31.",
    ),
]


@app.command()
def history(
    agents: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help=f"{', '.join(AGENTS)}; by default all.")
    ] = None,
    *,
    since: Since = None,
    unasked: Annotated[
        bool, typer.Option("--unasked", help="Find calls that ran and no hook was asked about, by audit logs.")
    ] = False,
    audit: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="With --unasked: an audit log. Can be given several times. By default, those of the configuration.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count the past tool calls of agents, and find unguarded ones.

    Reads the transcripts that agents keep on this machine. Shows how often each tool was called, with what, and with what
    outcome. Secrets are replaced by [secret].

    Exits with 1 if there are no transcripts. With --unasked, also if a call ran and no hook was asked about it, or if nothing
    shows whether hooks were asked about any call.
    """
    if audit and not unasked:
        raise typer.BadParameter("--audit needs --unasked")
    asked = audited(map(require_file, audit or ())) if unasked else None
    tally = Tally(("agent", "session", "way", "tool") if unasked else ("agent", "tool"))
    verdicts: Counter[str] = Counter()
    with reading(agents or [*AGENTS], since) as past:
        for call in past:
            verdict = UNASKED if asked is None else asked.verdict(call)
            verdicts[verdict] += 1
            if verdict == UNASKED:
                tally.take(call)
    tally.show(as_json=as_json)
    _conclude(past, verdicts if unasked else None, as_json=as_json)
    if not past.counts["files"]:
        output.error(
            "no transcript was found: the agent has not run here in that time, keeps none, or keeps them elsewhere"
        )
    elif unasked and not any(verdicts[verdict] for verdict in KNOWN):
        output.error("nothing is proven: no call could be compared with the questions in the audit log")
    elif not (unasked and verdicts[UNASKED]):
        return
    raise typer.Exit(1)


@contextmanager
def reading(agents: list[str], since: float | None) -> Iterator[History]:
    """The past calls of these agents, with a progress bar on a terminal. Raises `typer.BadParameter`."""
    if unknown := [name for name in agents if name not in AGENTS]:
        raise typer.BadParameter(f"there are no transcripts of {unknown[0]}: give one of {', '.join(AGENTS)}")
    past = History(agents, since=since or 0.0)
    if not sys.stderr.isatty():
        yield past
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=past.total)
        past.progress = lambda count: progress.update(task, completed=count)
        yield past


class Tally:
    """Counts the calls whose values of these fields are the same."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        self._rows: dict[tuple[str, ...], tuple[float, Counter[str], Counter[str]]] = {}
        """Of each, the time of the first call, the outcomes, and with what the tool was called."""

    def take(self, call: PastCall) -> None:
        """Count a call."""
        key = tuple(getattr(call, name) for name in self._fields)
        _, outcomes, uses = self._rows.setdefault(key, (call.at, Counter(), Counter()))
        outcomes[call.outcome] += 1
        uses[use_of(call.arguments)] += 1

    def show(self, *, as_json: bool) -> None:
        """Print the counts, those of each agent together, and the highest first."""
        numbers = ("calls", *OUTCOMES)
        table = []
        for key, row in sorted(self._rows.items(), key=lambda item: (item[0][0], -item[1][1].total(), item[0])):
            at, outcomes, uses = row
            often = redacted({use: count for use, count in uses.most_common(20) if use})
            first = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else "-"
            about = dict(zip(self._fields, redacted(key), strict=True))
            about |= {"calls": outcomes.total(), **{name: outcomes[name] for name in OUTCOMES}, "first": first}
            if as_json:
                output.data({**about, "with": often})
            shown = [f"{use} {count}" for use, count in often.items()]
            table.append([*map(str, about.values()), ", ".join(shown[:_SHOWN])])
        if table and not as_json:
            output.table((*self._fields, *numbers, "first", "most often with"), table, numbers=numbers)


def use_of(arguments: dict[str, Any]) -> str:
    """Returns in a few words with what a tool was called: a program, a kind of file, a site."""
    for name, value in arguments.items():
        if not isinstance(value, str) or not value:
            continue
        if name == "command":
            words = [word for word in value.split() if "=" not in word]
            return words[0].rpartition("/")[2][:40] if words else ""
        if name in {"file_path", "path"}:
            base, dot, end = value.rpartition("/")[2].rpartition(".")
            return f"*.{end[:20]}" if dot and base else "files"
        if name == "url":
            return value.partition("://")[2].partition("/")[0].rpartition("@")[2][:60]
    return ""


def _conclude(past: History, verdicts: Counter[str] | None, *, as_json: bool) -> None:
    """Print the verdicts about the calls, if there are any, and what was not read."""
    if as_json:
        if verdicts is not None:
            output.data({"verdicts": verdicts})
        output.data({**past.counts, "unread": past.unread})
        return
    if verdicts is not None:
        rest = ", ".join(f"{verdict}: {count}" for verdict, count in sorted(verdicts.items()) if verdict != UNASKED)
        found = output.many(verdicts[UNASKED], "call")
        output.line(f"{found} ran and no hook was asked{f' ({rest})' if rest else ''}")
    if past.counts["damaged"]:
        output.warn(f"{output.many(past.counts['damaged'], 'damaged line')} left out")
    for reason, count in past.unread.items():
        output.warn(f"{output.many(count, 'path')} not read: {reason}")
