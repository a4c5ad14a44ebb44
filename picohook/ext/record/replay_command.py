"""`picohook replay`: ask hooks about past calls again, and compare the decisions."""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, Json, Verbose, reads_files
from ...cli.configuration import configured, program
from ...cli.host import garbage_collected_rarely, with_hooks
from ...engine.resumed import Resumed
from ...errors import HookCrashedError, PicohookError
from ...host import Host
from ...model.payloads import Meta
from ...model.spec import Timeouts
from ...model.stages import BEFORE_TOOL
from ...projects.layers import Layers
from ...wire import words
from ..history.command import Since, reading
from ..history.transcripts import AGENTS, PastCall, seconds_of
from .confined import confined
from .format import EndLine
from .page import Full, Html, page
from .reader import Chain, ChainEnded, Entry, payload_of
from .records import opened, require_rereadable, warn_of_end
from .replay import (
    RecordedHook,
    Replay,
    choose_hook,
    recorded_hooks,
)
from .tally import Tally

app = App()

_MAY_BE_IGNORED = ("reason", "feedback", "result", "notes", "payload")
_LONG = 1e6
"""Seconds for a chain. A hook that is asked alone has its own timeout, and no timeout of a chain."""
_WITHOUT = "Hooks were asked in a sandbox, without a network and with a directory that was thrown away."
_WITH = "Hooks were asked with all their effects: on the network, and on files."


def _share(text: str) -> float:
    """Parse `0.5%` or `0.005`. Raises `typer.BadParameter`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"must be a share of the calls, such as 0.5%, not {text}")
    return share


@app.command()
@reads_files
def replay(
    first: Annotated[
        str | None,
        typer.Argument(metavar="[RECORD]...", help="Files that --record has written.", show_default=False),
    ] = None,
    rest: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Ask this hook alone.", show_default=False),
    ] = None,
    *,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            "--config",
            metavar="FILE",
            help="Ask the hooks of this configuration, and not your own or those of this directory and above.",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Ask about the past calls of this agent, or of all.", show_default=False),
    ] = None,
    since: Since = None,
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
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Ask no hook: list what hooks in shadow would have decided.")
    ] = False,
    same: Annotated[bool, typer.Option("--same", help="Exit with 1 if anything changed.")] = False,
    max_false: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            parser=_share,
            help="Exit with 3 if more of the calls that succeeded would be denied now, such as 0.5%.",
            show_default=False,
        ),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Do not keep hooks from the network and from writing files.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all questions and answers there, as a record.", show_default=False),
    ] = None,
    html: Html = None,
    full: Full = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask hooks about past calls again, and compare the decisions.

    \b
    picohook replay session.jsonl --against new.toml
    picohook replay --history claude --since 30d --against new.toml
    picohook replay session.jsonl --hook guard -- node guard.mjs

    Shows the decisions that would change. No tool is run. The hooks of the configuration are asked every question of the
    records, or a COMMAND is asked every question that one hook got. They run in a sandbox, without a network, and with a
    directory that is thrown away. With --effects, they do not.

    Exits with 1 if something is newly allowed, or if a hook failed; for a COMMAND, and with --same, if anything changed.
    """  # noqa: D301 - click reads a backspace character, not an escape
    del verbose
    many = against is not None  # then there is no COMMAND, and all arguments are records
    asks = _Asks(
        [name for name in (first, *((rest or ()) if many else ())) if name is not None],
        [] if many else [*(rest or ())],
        history or "",
        since,
        hook,
        shadow,
    )
    asks.check(ignore or (), max_false)
    tally = Tally([*(ignore or ())], as_json)
    with contextlib.ExitStack() as stack:
        asks.begin(stack, record)
        layers = asks.layers if asks.command or shadow else configured(against)
        hooks, tally.notes = [*layers.hooks], [_WITH]
        if not effects:
            hooks, notes = confined(hooks, stack.enter_context(tempfile.TemporaryDirectory(prefix="picohook-")))
            tally.notes = [_WITHOUT, *notes]
            # Tables of the configuration, such as [audit], are about what happens, and not about what would.
            layers = replace(layers, configs=tuple(replace(config, tables={}) for config in layers.configs))
        for note in tally.notes[1:]:
            output.warn(note)
        if html is not None:
            title = f"Back-test of {', '.join(asks.records) or f'the history of {history}'}"
            tally.page = stack.enter_context(page(html, title, full=full))
        asks.run(replace(layers, hooks=tuple(hooks)), tally, record)
    tally.conclude(max_false, any_change=same or bool(asks.command))


@dataclass
class _Asks:
    """What is asked again."""

    records: list[str]
    command: list[str]
    history: str
    since: str | None
    hook: str | None
    """The hook whose questions the command is asked."""
    shadow: bool
    layers: Layers = field(default_factory=Layers)
    """With a command, that alone."""
    past: Iterable[PastCall] = ()

    def check(self, ignored: Iterable[str], max_false: float | None) -> None:
        """Raise `typer.BadParameter` for arguments that do not go together."""
        for name in ignored:
            if name not in _MAY_BE_IGNORED:
                raise typer.BadParameter(f"{name!r} is not one of {', '.join(_MAY_BE_IGNORED)}", param_hint="--ignore")
        if bool(self.records) is bool(self.history):
            raise typer.BadParameter("give a RECORD, or --history AGENT")
        if self.shadow and (self.command or self.history):
            raise typer.BadParameter("--shadow is about records alone")
        if self.hook is not None and not self.command:
            raise typer.BadParameter("--hook needs a COMMAND, which is asked the questions of that hook")
        if max_false is not None and self.command:
            raise typer.BadParameter("--max-false is about a configuration, and not about a COMMAND")

    def begin(self, stack: contextlib.ExitStack, record: Path | None) -> None:
        """Read all records, so that damaged ones are refused before anything runs. Find the hook of the command."""
        known: dict[str, RecordedHook] = {}
        for name in self.records:
            with opened(name) as source:
                require_rereadable(name)
                known |= recorded_hooks(source)
            warn_of_end(source, name)
            if record is not None and record.exists() and os.path.samefile(record, name):
                raise typer.BadParameter(
                    "this is the record that is replayed: name another file", param_hint="--record"
                )
        if self.history:
            agents = [*AGENTS] if self.history == "all" else [self.history]
            self.past = stack.enter_context(reading(agents, self.since))
        if self.command:
            try:
                self.hook = choose_hook(known, self.hook)
            except PicohookError as error:
                raise typer.BadParameter(str(error), param_hint="--hook") from None
            stand_in = known[self.hook].stand_in(self.hook, self.command)
            self.layers = Layers(hooks=(stand_in,))
            with self._errors():
                program(stand_in)  # raises an error that a host would only log

    def run(self, layers: Layers, tally: Tally, record: Path | None) -> None:
        """Ask these hooks, and count their decisions."""
        replay = Replay()

        async def work(host: Host) -> None:
            for entries, start in self._sources():
                ask = replay.shadows if self.shadow else replay.chains
                if self.command:
                    ask = partial(replay.of_hook, self.hook or "")
                async for one in ask(entries, host):
                    tally.take(one, start)

        timeouts = Timeouts(chain=_LONG) if self.command else None
        with self._errors(), garbage_collected_rarely():
            with_hooks(layers, work, record=record, timeouts=timeouts, faster=True)
        tally.finish(replay)

    def _sources(self) -> Iterator[tuple[Iterable[Entry], float]]:
        """Yields the entries of each record, and the time of its beginning."""
        if self.history:
            yield _entries(self.past), 0.0
        for name in self.records:
            with opened(name, checked=True) as source:
                yield source, seconds_of(source.header.time)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except HookCrashedError as error:
            if not self.command:
                raise
            raise typer.BadParameter(str(error), param_hint="COMMAND") from None


def _entries(past: Iterable[PastCall]) -> Iterator[Entry]:
    """Yields past calls as a record would have them."""
    for number, call in enumerate(past, 1):
        params = {
            "meta": Meta(session_key=call.session, turn_id=call.session, source="turn").wire(),
            "context": {"cwd": call.cwd},
            "tool": call.tool,
            "arguments": call.arguments,
            "tool_call_id": call.id,
        }
        payload = payload_of(BEFORE_TOOL, params)
        chain = Chain(
            number, number, call.at, BEFORE_TOOL, params, Resumed(), params, agent=call.agent, payload=payload
        )
        denied = call.outcome == "denied"
        chain.succeeded = None if call.outcome == "unknown" else call.outcome == "succeeded"
        yield chain
        action = words.DENY if denied else words.CONTINUE
        line = EndLine(type="end", at=call.at, chain=number, action=action, reason=call.text if denied else "")
        yield ChainEnded(line, chain)
