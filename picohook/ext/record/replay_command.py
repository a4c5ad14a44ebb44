"""`picohook replay`: ask hooks about past calls again, and compare the decisions."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, Json, Verbose, reads_files
from ...cli.configuration import configured, program
from ...cli.host import garbage_collected_rarely, with_hooks
from ...errors import HookCrashedError, PicohookError
from ...host import Host
from ...model.payloads import Meta, ToolCall
from ...model.spec import Timeouts
from ...model.stages import BEFORE_TOOL
from ...projects.layers import Layers
from ...wire import words
from ..history.command import Since, reading
from ..history.transcripts import AGENTS, PastCall, seconds_of
from ..vendors import dialogue
from .confined import confined
from .page import Full, Html, page
from .reader import Chain
from .replay import Past, RecordedHook, Replay, choose_hook, questions, questions_to, recorded_hooks
from .tally import Tally
from .trace_command import opened, warn_of_end

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
    first: Annotated[str | None, typer.Argument(metavar="[RECORD]...", help="Files that --record has written.")] = None,
    rest: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Ask this hook alone.")] = None,
    *,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            "--config",
            metavar="FILE",
            help="Ask the hooks of this configuration, and not your own or those of this directory and above.",
        ),
    ] = None,
    history: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Ask about the past calls of this agent, or of all.")
    ] = None,
    since: Since = None,
    hook: Annotated[
        str | None,
        typer.Option(
            "--hook",
            metavar="NAME",
            help="With a COMMAND: ask it the questions of this hook. Needed if the record has several hooks.",
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
        ),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Do not keep hooks from the network and from writing files.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all questions and answers there, as a record.")
    ] = None,
    html: Html = None,
    full: Full = False,
    as_json: Json = False,
    _verbose: Verbose = False,
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
    command = [] if against is not None else [*(rest or ())]  # with a configuration, all arguments are records
    records = [name for name in (first, *((rest or ()) if against is not None else ())) if name is not None]
    ignored = ignore or []
    if unknown := [name for name in ignored if name not in _MAY_BE_IGNORED]:
        why = f"{unknown[0]!r} is not one of {', '.join(_MAY_BE_IGNORED)}"
        raise typer.BadParameter(why, param_hint="--ignore")
    mistakes = {
        "give a RECORD, or --history AGENT": bool(records) is bool(history),
        "--shadow is about records alone": shadow and (command or history),
        "--hook needs a COMMAND, which is asked the questions of that hook": hook is not None and not command,
        "--max-false is about a configuration, and not about a COMMAND": max_false is not None and command,
    }
    for why in [why for why, is_made in mistakes.items() if is_made]:
        raise typer.BadParameter(why)
    with ExitStack() as stack:
        known = _read(records, record)
        past: Iterable[PastCall] = ()
        if history:
            past = stack.enter_context(reading([*AGENTS] if history == "all" else [history], since))
        if command:
            hook, layers = _standing_in(known, hook, command)
        else:
            layers = Layers() if shadow else configured(against)
        replay = Replay(hook or "")
        tally = Tally(replay, ignored, as_json, [_WITH])
        hooks = [*layers.hooks]
        if not effects:
            hooks, notes = confined(hooks, stack.enter_context(tempfile.TemporaryDirectory(prefix="picohook-")))
            tally.notes = [_WITHOUT, *notes]
            # Tables of the configuration, such as [audit], are about what happens, and not about what would.
            layers = replace(layers, configs=tuple(replace(config, tables={}) for config in layers.configs))
        for note in tally.notes[1:]:
            output.warn(note)
        if html is not None:
            title = f"Back-test of {', '.join(records) or f'the history of {history}'}"
            tally.page = stack.enter_context(page(html, title, full=full))

        async def work(host: Host) -> None:
            dialogue.CURRENT.set(dialogue.Dialogue("", asks=True, cwd=os.getcwd()))  # what would be asked is no denial
            for source, start in _sources(records, past, hook):
                async for one in replay.compared(source, None if shadow else host):
                    tally.take(one, start)

        timeouts = Timeouts(chain=_LONG) if command else None
        with _errors_of(command), garbage_collected_rarely():
            with_hooks(replace(layers, hooks=tuple(hooks)), work, record=record, timeouts=timeouts, faster=True)
        if tally.page is not None:
            tally.page.notes = {"How": "; ".join(tally.notes), "Result": tally.text}
    tally.conclude(max_false, any_change=same or bool(command))


def _read(records: list[str], target: Path | None) -> dict[str, RecordedHook]:
    """Read all records, so that damaged ones are refused before anything runs. Returns their hooks."""
    known: dict[str, RecordedHook] = {}
    for name in records:
        with opened(name) as source:
            if name == "-" or not os.path.isfile(name):
                why = "can be read only once, and a replay reads a record twice: save it to a file first"
                raise typer.BadParameter(f"{source.name} {why}")
            known |= recorded_hooks(source)
        warn_of_end(source)
        if target is not None and target.exists() and os.path.samefile(target, name):
            raise typer.BadParameter("this is the record that is replayed: name another file", param_hint="--record")
    return known


def _standing_in(known: dict[str, RecordedHook], hook: str | None, command: list[str]) -> tuple[str, Layers]:
    """Returns the name of the hook whose questions the command is asked, and a configuration with the command alone."""
    try:
        name = choose_hook(known, hook)
    except PicohookError as error:
        raise typer.BadParameter(str(error), param_hint="--hook") from None
    spec = known[name].stand_in(name, command)
    with _errors_of(command):
        program(spec)  # raises an error that a host would only log
    return name, Layers(hooks=(spec,))


@contextmanager
def _errors_of(command: list[str]) -> Iterator[None]:
    """A program of the command line that does not start is a mistake on it."""
    try:
        yield
    except HookCrashedError as error:
        if not command:
            raise
        raise typer.BadParameter(str(error), param_hint="COMMAND") from None


def _sources(records: list[str], calls: Iterable[PastCall], hook: str | None) -> Iterator[tuple[Iterable[Past], float]]:
    """Yields the questions of the transcripts and of each record, with the time of its beginning."""
    yield _of_transcripts(calls), 0.0
    for name in records:
        with opened(name, checked=True) as source:
            yield questions_to(hook, source) if hook else questions(source), seconds_of(source.header["time"])


def _of_transcripts(calls: Iterable[PastCall]) -> Iterator[Past]:
    """Yields past calls as a record would have them."""
    for number, call in enumerate(calls, 1):
        meta = Meta(session_key=call.session, turn_id=call.session, source="turn")
        payload = ToolCall(
            meta=meta, context={"cwd": call.cwd}, tool=call.tool, arguments=call.arguments, tool_call_id=call.id
        )
        params = payload.wire()
        chain = Chain(number, number, call.at, BEFORE_TOOL, params, payload, params=params, agent=call.agent)
        chain.succeeded = None if call.outcome == "unknown" else call.outcome == "succeeded"
        yield "begin", chain
        denied = call.outcome == "denied"
        action, reason = (words.DENY, call.text) if denied else (words.CONTINUE, "")
        chain.end = {"action": action, "reason": reason}
        yield "end", chain
