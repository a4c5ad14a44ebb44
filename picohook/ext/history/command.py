"""`picohook history`: the past tool calls of agents on this machine."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from ...cli.outcomes import shown
from ...errors import PicohookError
from ...wire.did_you_mean import nearest
from .past import Counts, History, since as since_of
from .redact import redacted
from .transcripts import AGENTS, OUTCOMES, PastCall
from .unasked import Asked, audited

app = App()

_MOST = 1000
"""Different kinds of use of a tool that are counted apart."""
_SHOWN = 3

Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only calls since then: 30d, 12h, or a date such as 2026-01-31.", show_default=False
    ),
]


@app.command()
def history(
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT]...", help=f"{', '.join(AGENTS)}; by default all.", show_default=False),
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
            show_default=False,
        ),
    ] = None,
    calls: Annotated[bool, typer.Option("--calls", help="Show each call.")] = False,
    as_json: Json = False,
) -> None:
    """Count the past tool calls of agents, and find unguarded ones.

    Reads the transcripts that agents keep on this machine. Shows how often each tool was called, with what, and with what
    outcome. Secrets are replaced by [secret].

    With --unasked, exits with 1 if a call ran and no hook was asked about it, or if there are no transcripts.
    """
    if audit and not unasked:
        raise typer.BadParameter("--audit needs --unasked")
    asked = audited([require_file(path) for path in audit or ()]) if unasked else None
    tally: Tally | Unasked = Tally() if asked is None else Unasked(asked)
    with reading(agents or [*AGENTS], since) as past:
        for call in past:
            tally.take(call)
            if calls:
                _show_call(call, as_json=as_json)
    tally.show(as_json=as_json)
    _conclude(past.counts, as_json=as_json)
    if isinstance(tally, Unasked) and (tally.found or not past.counts.files):
        raise typer.Exit(1)


@contextmanager
def reading(agents: list[str], since: str | None) -> Iterator[History]:
    """The past calls of these agents, with a progress bar on a terminal. Raises `typer.BadParameter`."""
    for name in agents:
        if name not in AGENTS:
            near = nearest(name, AGENTS)
            hint = f": did you mean {near}?" if near else f": {', '.join(AGENTS)}"
            raise typer.BadParameter(f"there are no transcripts of {name}{hint}")
    try:
        start = 0.0 if since is None else since_of(since)
    except PicohookError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    if not sys.stderr.isatty():
        yield History(agents, since=start)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)

        def read(counts: Counts) -> None:
            progress.update(task, completed=counts.bytes, total=counts.total)

        yield History(agents, since=start, read=read)


@dataclass
class Tally:
    """Counts calls by agent and tool."""

    sessions: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    outcomes: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    uses: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def take(self, call: PastCall) -> None:
        """Count a call."""
        key = call.agent, call.tool
        self.sessions[call.agent].add(hash(call.session))
        self.outcomes[key][call.outcome] += 1
        use = use_of(call.arguments)
        if use and (use in self.uses[key] or len(self.uses[key]) < _MOST):
            self.uses[key][use] += 1

    def show(self, *, as_json: bool) -> None:
        """Print the counts, the most used tool of each agent first."""
        rows = sorted(self.outcomes.items(), key=lambda row: (row[0][0], -row[1].total(), row[0][1]))
        if as_json:
            for (agent, tool), counts in rows:
                by_outcome = {name: counts[name] for name in OUTCOMES}
                often = redacted(dict(self.uses[agent, tool].most_common(20)))
                output.data(
                    {"agent": agent, "tool": redacted(tool), "calls": counts.total(), **by_outcome, "with": often}
                )
            return
        for agent, sessions in sorted(self.sessions.items()):
            own = [(tool, counts) for (of, tool), counts in rows if of == agent]
            output.line(f"{agent}: {_many(len(sessions), 'session')}, {_many(sum(c.total() for _, c in own), 'call')}")
            columns = ("  tool", "calls", *OUTCOMES, "most often with")
            table = [
                (
                    f"  {redacted(tool)}",
                    str(counts.total()),
                    *(str(counts[name]) for name in OUTCOMES),
                    self._often(agent, tool),
                )
                for tool, counts in own
            ]
            output.table(columns, table, numbers=columns[1:-1])

    def _often(self, agent: str, tool: str) -> str:
        return ", ".join(f"{redacted(use)} {count}" for use, count in self.uses[agent, tool].most_common(_SHOWN))


@dataclass
class Unasked:
    """Finds the calls that ran and no hook was asked about."""

    asked: Asked
    verdicts: Counter[str] = field(default_factory=Counter)
    places: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    firsts: dict[tuple[str, str, str, str], PastCall] = field(default_factory=dict)

    @property
    def found(self) -> int:
        """The number of such calls."""
        return self.verdicts["unasked"]

    def take(self, call: PastCall) -> None:
        """Compare a call with the audit logs."""
        if call.outcome in {"denied", "unknown"}:
            self.verdicts["did not run, or the transcript does not say so"] += 1
            return
        verdict = self.asked.verdict(call)
        self.verdicts[verdict] += 1
        if verdict == "unasked":
            key = call.agent, call.session, call.way, call.tool
            self.places[key] += 1
            if key in self.firsts or len(self.firsts) < _MOST:
                self.firsts.setdefault(key, call)

    def show(self, *, as_json: bool) -> None:
        """Print these calls by agent, session, way and tool, and the numbers of the others."""
        names = ("agent", "session", "way", "tool")
        for key, count in self.places.most_common():
            first = self.firsts.get(key)
            about: dict[str, Any] = {**dict(zip(names, redacted(key), strict=True)), "unasked": count}
            if first is not None:
                about |= {"first": when(first.at), "cwd": redacted(first.cwd), "arguments": redacted(first.arguments)}
            if as_json:
                output.data(about)
            else:
                example = f"first {about.get('first')}: {shown(about.get('arguments', {}))}"
                output.line(
                    f"unasked: {about['agent']} {about['session']} ({about['way']}): {about['tool']} {count}",
                    style="bold red",
                )
                output.line(f"  {example}", cut=True)
        if as_json:
            output.data({"verdicts": dict(self.verdicts)})
        else:
            rest = ", ".join(
                f"{verdict}: {count}" for verdict, count in sorted(self.verdicts.items()) if verdict != "unasked"
            )
            output.line(f"{_many(self.found, 'call')} ran and no hook was asked{f' ({rest})' if rest else ''}")


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


def when(at: float) -> str:
    """Returns a time as text."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else "-"


def _show_call(call: PastCall, *, as_json: bool) -> None:
    names = ("agent", "session", "way", "id", "tool", "cwd", "arguments", "outcome")
    about = redacted({"at": when(call.at), **{name: getattr(call, name) for name in names}})
    if as_json:
        output.data(about)
    else:
        text = f"{about['at']}  {call.agent}  {call.outcome:<9}  {about['tool']} {shown(about['arguments'])}"
        output.line(text, cut=True)


def _conclude(counts: Counts, *, as_json: bool) -> None:
    unread = sum(counts.unread.values())
    if as_json:
        read = {"files": counts.files, "bytes": counts.bytes, "damaged": counts.damaged, "repeated": counts.repeated}
        output.data({**read, "unread": dict(counts.unread)})
        return
    if not counts.files:
        output.error("no transcript was found: the agent has not run here, keeps none, or keeps them elsewhere")
    if counts.damaged:
        output.warn(f"{_many(counts.damaged, 'damaged line')} left out")
    if unread:
        why = ", ".join(f"{reason}: {count}" for reason, count in counts.unread.items())
        output.warn(f"{_many(unread, 'file')} not read: {why}")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
