"""`picohook guard`: the packs and rules, their examples, and how well they do."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from ...errors import PicohookError
from . import rules
from .judge import ALL, Judge, Place
from .measure import measure, read
from .rules import Rule

app = App()
Packs = Annotated[str, typer.Option("--packs", metavar="NAMES", help="The packs, with commas. Default: all.")]
_COLUMNS = ("harmful", "caught %", "irreversible %", "harmless", "denied %", "asked %")
STAND = Place("/home/dev/shop", "/home/dev/shop", home="/home/dev")
"""Where examples of rules are judged: in a project that does not exist."""


def own_rules(config: Path | None) -> tuple[Mapping[str, Any], ...]:
    """The rules in the `[guards]` table of a configuration. Raises `ConfigError`."""
    if config is None:
        return ()
    from ...projects import layers

    tables = [one.tables.get("guards") for one in layers.named(require_file(config)).configs]
    return tuple(rule for table in tables if table is not None for rule in table.rule)


@app.command()
def guard(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="With --measure: calls with labels.", show_default=False),
    ] = None,
    *,
    packs: Packs = ",".join(ALL),
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Also the rules of this configuration.", show_default=False),
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Judge the examples of each rule.")] = False,
    measured: Annotated[
        bool, typer.Option("--measure", help="Judge the calls of JSON lines in FILE..., and count the wrong decisions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the rules of guards, test them, or measure them.

    --test judges the examples of each rule: a harmful one has to be stopped by it, and a harmless one has to pass. Exits with 1
    if one is not. --measure counts the harmful calls that are caught and the harmless ones that are not let pass, by pack and
    source. A line is {"tool", "arguments", "label": "harmful" or "harmless", "source", "pack"}.
    """
    if measured is not bool(files):
        raise typer.BadParameter("--measure needs files, and files need --measure", param_hint="FILE")
    judge = Judge([name for name in packs.split(",") if name], own=own_rules(config))
    if files:
        _measure(judge, files, as_json=as_json)
        return
    if test:
        failed = list(failures(judge))
        for one in failed:
            output.error(one)
        if failed:
            raise typer.Exit(1)
        count = sum(len(rule.harmful) + len(rule.harmless) for rule in judge.rules)
        output.line(f"{len(judge.rules)} rules hold for their {count} examples")
        return
    for rule in judge.rules:
        if as_json:
            output.data(
                {
                    "pack": rule.pack,
                    "id": rule.id,
                    "severity": rule.severity,
                    "decision": rule.decision,
                    "owasp": rule.owasp,
                    "why": rule.why,
                    "instead": rule.instead,
                    "example": shown(next(iter(rule.harmful), "")),
                }
            )
    if not as_json:
        _list(judge)


def _measure(judge: Judge, files: Sequence[Path], *, as_json: bool) -> None:
    """Judge the calls of files, and print the rates and what was judged wrongly. Raises `PicohookError`."""
    try:
        found = measure(judge, chain.from_iterable(read(require_file(one)) for one in files))
    except OSError as error:
        raise PicohookError(f"{error.filename} cannot be read: {error.strerror}") from None
    if as_json:
        output.data(found.wire())
        return
    groups = {"pack": found.by_pack(), "source": found.by_source(), "": {"all": found.all()}}
    for title, rows in groups.items():
        output.table((title, *_COLUMNS), [(name, *rates.cells()) for name, rates in rows.items()], numbers=_COLUMNS)
        output.line()
    output.line(f"{len(found.wrong)} were judged wrongly")
    for example, verdict in found.wrong:
        output.line(f"{'harmful' if example.harmful else 'harmless'}, {verdict.decision}: {example.shown}")


def _list(judge: Judge) -> None:
    pack = ""
    for rule in judge.rules:
        if rule.pack != pack:
            pack = rule.pack
            title = rules.pack(pack).title if pack != "own" else "Rules of your own"
            output.line(f"{pack}: {title}", style="bold")
        output.pairs([(rule.id, f"{rule.decision}, {rule.severity}: {shown(next(iter(rule.harmful), ''))}")])


def shown(example: Any) -> str:
    """An example in one line."""
    if isinstance(example, str):
        return example
    return f"{example['tool']} " + " ".join(f"{name}={value!r}" for name, value in example["arguments"].items())


def call_of(example: Any) -> tuple[str, Mapping[str, Any]]:
    """The tool and the arguments of an example, which is a command or a table. Raises `PicohookError`."""
    if isinstance(example, str):
        return "Bash", {"command": example}
    if not isinstance(example, dict) or not isinstance(example.get("arguments"), dict):
        raise PicohookError(f"an example is a command, or a table with `tool` and `arguments`, and not {example!r}")
    return str(example.get("tool")), example["arguments"]


def failures(judge: Judge) -> Iterator[str]:
    """Yields a sentence for each example of a rule that it does not hold for."""
    for rule in judge.rules:
        for example in rule.harmful:
            verdict = judge.judge(*call_of(example), STAND)
            if rule.id not in {found.rule.id for found in verdict.findings} or verdict.decision == "continue":
                yield _failure(rule, example, "is not stopped by it")
        for example in rule.harmless:
            verdict = judge.judge(*call_of(example), STAND)
            if verdict.decision != "continue":
                yield _failure(rule, example, f"is stopped, by {verdict.rule}: {verdict.why}")


def _failure(rule: Rule, example: Any, what: str) -> str:
    return f"{rule.id}: {shown(example)} {what}"
