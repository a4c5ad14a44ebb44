"""`picohook replay`: ask hooks about past calls again, and compare the decisions."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, Json, Verbose, reads_files
from ...cli.configuration import configured
from ...cli.host import garbage_collected_rarely, with_hooks
from ...host import Host
from ...model.payloads import Meta, ToolCall
from ...model.spec import HookSpec, Sandbox, python_file
from ...model.stages import BEFORE_TOOL
from ...projects.layers import Layers
from ...wire import words
from ..history.command import Since, reading
from ..history.transcripts import AGENTS, PastCall, seconds_of
from ..vendors import dialogue
from .reader import Chain, Entry, Record
from .replay import KINDS, NEWLY_ALLOWED, NEWLY_DENIED, Comparison, call_of, changed_since, compared
from .shadow import served
from .shown import Full, Html, Shown, item_of, shown
from .trace_command import opened, warn_of_end

app = App()

_TOO_MANY_FALSE = 3
_COUNTED = (*KINDS, "false rejections", "succeeded", "stateful", "failed", "not compared")
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
    records: Annotated[
        list[str] | None, typer.Argument(metavar="[RECORD]...", help="Files that --record has written.")
    ] = None,
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

    Shows the decisions that would change. No tool is run. The hooks are asked every question of the records. They run in a
    sandbox, without a network, and with a directory that is thrown away. With --effects, they do not.

    Exits with 1 if something is newly allowed, or if a hook failed; with --same, if anything changed.
    """  # noqa: D301 - click reads a backspace character, not an escape
    if bool(records) is bool(history):
        raise typer.BadParameter("give a RECORD, or --history AGENT")
    if shadow and history:
        raise typer.BadParameter("--shadow is about records alone")
    with ExitStack() as stack:
        past: list[tuple[Iterable[Entry], float]] = []
        succeeded, counts = set[int](), Counter[str]()
        for name in records or ():
            source = stack.enter_context(opened(name))
            if not os.path.isfile(name):
                why = "can be read only once, and a replay reads a record twice: save it to a file first"
                raise typer.BadParameter(f"{source.name} {why}")
            if record is not None and record.exists() and os.path.samefile(record, name):
                raise typer.BadParameter(
                    "this is the record that is replayed: name another file", param_hint="--record"
                )
            past.append((source, seconds_of(source.header["time"])))
            succeeded.update(_succeeded(source, counts))  # a damaged one is refused before anything runs
        layers, how = Layers() if shadow else configured(against), _WITH
        if not effects:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="picohook-"))
            layers, how = _without_effects(layers, scratch)
        title = f"Back-test of {', '.join(records or ()) or f'the history of {history}'}"
        tally = Tally(stack.enter_context(shown(title, html, full=full, as_json=as_json)), succeeded, counts)
        if history:
            calls = stack.enter_context(reading([*AGENTS] if history == "all" else [history], since))
            past.append((_of_transcripts(calls), 0.0))

        async def work(host: Host) -> None:
            dialogue.CURRENT.set(dialogue.Dialogue("", asks=True, cwd=os.getcwd()))  # what would be asked is no denial
            for entries, start in past:
                async for one in compared(entries, None if shadow else host, counts):
                    tally.take(one, start)
                if isinstance(entries, Record):
                    warn_of_end(entries)

        with garbage_collected_rarely():
            with_hooks(layers, work, record=record, faster=True)
        tally.changes.notes = {"How": how, "Result": tally.text}
    tally.conclude(max_false, any_change=same, as_json=as_json)


def _without_effects(layers: Layers, scratch: str) -> tuple[Layers, str]:
    """Returns the configurations, with hooks in sandboxes that can write this directory alone, and how they are asked.

    Prints which cannot be asked. Tables, such as [audit], are left out: they are about what happens, and not about what would.
    """
    kept: list[HookSpec] = []
    notes: list[str] = []
    for spec in layers.hooks:
        if getattr(spec, "mode", "") == "shadow":
            notes.append(f"{spec.name} is not asked, because it is in shadow, and decides nothing")
        elif spec.kind == "guards":  # they have no effects
            kept.append(spec)
        elif spec.command or spec.run or spec.python:
            file = python_file(spec)  # the command names no file whose content is trusted
            named = {"trust": () if file is None else (os.path.relpath(file, spec.dir),)}
            inside = spec.model_copy(update=served(spec) | named) if spec.python else spec
            read_only = spec.sandbox.read_only if spec.sandbox is not None else ("/",)
            sandbox = Sandbox(read_only=read_only, writable=(scratch,), network=False)
            kept.append(inside.model_copy(update={"sandbox": sandbox, "env": {**inside.env, "TMPDIR": scratch}}))
        else:
            notes.append(
                f"{spec.name} is not asked, because it runs no program that a sandbox can hold: give --effects"
            )
    for note in notes:
        output.warn(note)
    configs = tuple(replace(config, tables={}) for config in layers.configs)
    return replace(layers, hooks=tuple(kept), configs=configs), "; ".join((_WITHOUT, *notes))


def _succeeded(record: Record, counts: Counter[str]) -> Iterator[int]:
    """Read a record. Yields the calls that were made and succeeded."""
    for line, chain in record:
        if line["type"] == "begin" and chain is not None and chain.stage.name == "after_tool":
            result = chain.asked_about.get("result")
            if isinstance(result, dict) and not result.get("is_error"):
                counts["succeeded"] += 1
                yield call_of(chain)


def _of_transcripts(calls: Iterable[PastCall]) -> Iterator[Entry]:
    """Yields past calls as a record would have them."""
    for number, call in enumerate(calls, 1):
        meta = Meta(session_key=call.session, turn_id=call.session, source="turn")
        payload = ToolCall(
            meta=meta, context={"cwd": call.cwd}, tool=call.tool, arguments=call.arguments, tool_call_id=call.id
        )
        params = payload.wire()
        chain = Chain(number, call.at, BEFORE_TOOL, params, payload, params, succeeded=call.outcome == "succeeded")
        yield {"type": "begin"}, chain
        chain.end = {"action": words.CONTINUE}
        if call.outcome == "denied":
            chain.end = {"action": words.DENY, "reason": call.text}
        yield {"type": "end"}, chain


@dataclass
class Tally:
    """Counts the decisions that were compared, and shows those that changed."""

    changes: Shown
    """Shows them."""
    succeeded: set[int]
    """The calls of records that were made then and succeeded."""
    counts: Counter[str]

    def take(self, one: Comparison, start: float) -> None:
        """Count a decision, and show it if it changed. `start` is the time of the record's beginning."""
        then, changed = one.then, one.changed
        self.counts["decisions"] += 1
        # Of a hook that failed now and not then, nothing shows what it decides.
        self.counts["failed"] += bool(one.replayed.get("failed", {}).keys() - one.recorded.get("failed", {}).keys())
        self.counts["succeeded"] += bool(then.succeeded)
        if not changed or (then.succeeded is not None and [*changed] == ["reason"]):  # the agent words a denial itself
            return
        kind, state = one.kind, changed_since(then.asked_about, start + then.at)
        is_false = kind == NEWLY_DENIED and (bool(then.succeeded) or call_of(then) in self.succeeded)
        self.counts["changed"] += 1
        self.counts[kind] += 1
        self.counts["stateful"] += bool(state)
        self.counts["false rejections"] += is_false and not state
        hooks = item_of(then, when="then")["hooks"] + item_of(one.now, when="now")["hooks"]
        about = {"kind": kind, "changed": changed, "false_rejection": is_false or None, "state": state, "hooks": hooks}
        verdict, why = one.replayed["action"], one.replayed.get("reason", "")
        self.changes.add(item_of(then) | about | {"verdict": verdict, "why": why})

    @property
    def text(self) -> str:
        """All numbers in words."""
        text = f"{output.many(self.counts['decisions'], 'decision')}, {self.counts['changed']} changed"
        return ", ".join((text, *(f"{self.counts[name]} {name}" for name in _COUNTED if self.counts[name])))

    def conclude(self, max_false: float | None, *, any_change: bool, as_json: bool) -> None:
        """Print the numbers. Raises `typer.Exit` if they are not good."""
        counts = self.counts
        if as_json:
            output.data({name.replace(" ", "_"): counts[name] for name in ("decisions", "changed", *_COUNTED)})
        else:
            output.line(self.text, style="bold red" if counts["changed"] else "bold green")
        if not counts["decisions"]:
            output.error("the record has no decision to compare")
        if counts["failed"] and not any_change:
            output.error("a hook failed, so this does not show what it would decide")
        if counts[NEWLY_ALLOWED] or counts["failed"] or not counts["decisions"] or (any_change and counts["changed"]):
            raise typer.Exit(1)
        if max_false is not None and not counts["succeeded"]:
            output.error("which calls succeeded is not known, so --max-false cannot be held: record after_tool, too")
        elif max_false is None or counts["false rejections"] <= max_false * counts["succeeded"]:
            return
        raise typer.Exit(_TOO_MANY_FALSE)
