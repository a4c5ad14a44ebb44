"""`picohook history`: the past tool calls of agents on this machine."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import outcomes, output
from ...cli.command import App, Json, require_file
from ...errors import PicohookError
from ...wire.did_you_mean import nearest
from .past import Counts, History, since as since_of
from .redact import redacted
from .transcripts import AGENTS, OUTCOMES, PastCall
from .unasked import UNASKED, Asked, audited

app = App()

_MOST = 1000
"""Different kinds of use of a tool that are counted apart."""
_SHOWN = 3

Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only calls since then: 30d, 12h, or a date such as 2026-01-31.")
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
    tally = Unasked(audited(map(require_file, audit or ()))) if unasked else Tally()
    with reading(agents or [*AGENTS], since) as past:
        for call in past:
            tally.take(call)
            if calls:
                _show_call(call, as_json=as_json)
    tally.show(as_json=as_json)
    _conclude(past.counts, as_json=as_json)
    if unasked and (tally.found or not past.counts.files):
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
        past = History(agents, since=0.0 if since is None else since_of(since))
    except PicohookError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None
    if not sys.stderr.isatty():
        yield past
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=past.counts.total)
        past.read = lambda counts: progress.update(task, completed=counts.bytes)
        yield past


class Tally:
    """Counts calls by agent and tool."""

    found = 0

    def __init__(self) -> None:
        self.sessions: defaultdict[str, set[int]] = defaultdict(set)
        self.outcomes: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.uses: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

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
            for key, counts in rows:
                about = {"agent": key[0], "tool": key[1], "calls": counts.total()}
                by_outcome = {name: counts[name] for name in OUTCOMES}
                output.data(redacted({**about, **by_outcome, "with": dict(self.uses[key].most_common(20))}))
            return
        for agent, sessions in sorted(self.sessions.items()):
            own = [(key, counts) for key, counts in rows if key[0] == agent]
            calls = sum(counts.total() for _, counts in own)
            output.line(f"{agent}: {output.many(len(sessions), 'session')}, {output.many(calls, 'call')}")
            columns = ("  tool", "calls", *OUTCOMES, "most often with")
            table = []
            for key, counts in own:
                often = ", ".join(f"{redacted(use)} {count}" for use, count in self.uses[key].most_common(_SHOWN))
                numbers = map(str, (counts.total(), *(counts[name] for name in OUTCOMES)))
                table.append((f"  {redacted(key[1])}", *numbers, often))
            output.table(columns, table, numbers=columns[1:-1])


class Unasked:
    """Finds the calls that ran and no hook was asked about."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.verdicts: Counter[str] = Counter()
        self.places: Counter[tuple[str, ...]] = Counter()
        self.firsts: dict[tuple[str, ...], PastCall] = {}

    @property
    def found(self) -> int:
        """The number of such calls."""
        return self.verdicts[UNASKED]

    def take(self, call: PastCall) -> None:
        """Compare a call with the audit logs."""
        verdict = self.asked.verdict(call)
        self.verdicts[verdict] += 1
        if verdict == UNASKED:
            key = call.agent, call.session, call.way, call.tool
            self.places[key] += 1
            if len(self.firsts) < _MOST:
                self.firsts.setdefault(key, call)

    def show(self, *, as_json: bool) -> None:
        """Print these calls by agent, session, way and tool, and the numbers of the others."""
        for key, count in self.places.most_common():
            agent, session, way, tool = redacted(key)
            about: dict[str, Any] = {"agent": agent, "session": session, "way": way, "tool": tool, "unasked": count}
            if (first := self.firsts.get(key)) is not None:
                about |= {"first": when(first.at), **redacted({"cwd": first.cwd, "arguments": first.arguments})}
            if as_json:
                output.data(about)
            else:
                output.line(f"unasked: {agent} {session} ({way}): {tool} {count}", style="bold red")
                output.line(f"  first {about.get('first')}: {outcomes.shown(about.get('arguments', {}))}", cut=True)
        if as_json:
            output.data({"verdicts": dict(self.verdicts)})
            return
        others = sorted((verdict, count) for verdict, count in self.verdicts.items() if verdict != UNASKED)
        rest = ", ".join(f"{verdict}: {count}" for verdict, count in others)
        output.line(f"{output.many(self.found, 'call')} ran and no hook was asked{f' ({rest})' if rest else ''}")


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
        asked = f"{about['tool']} {outcomes.shown(about['arguments'])}"
        output.line(f"{about['at']}  {call.agent}  {call.outcome:<9}  {asked}", cut=True)


def _conclude(counts: Counts, *, as_json: bool) -> None:
    unread = sum(counts.unread.values())
    if as_json:
        read = {"files": counts.files, "bytes": counts.bytes, "damaged": counts.damaged, "repeated": counts.repeated}
        output.data({**read, "unread": dict(counts.unread)})
        return
    if not counts.files:
        output.error("no transcript was found: the agent has not run here, keeps none, or keeps them elsewhere")
    if counts.damaged:
        output.warn(f"{output.many(counts.damaged, 'damaged line')} left out")
    if unread:
        why = ", ".join(f"{reason}: {count}" for reason, count in counts.unread.items())
        output.warn(f"{output.many(unread, 'file')} not read: {why}")
