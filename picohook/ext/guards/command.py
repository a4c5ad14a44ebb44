"""`picohook guard`: the packs and rules, their examples, and how well they do."""

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from ...errors import PicohookError
from . import rules
from .judge import ALL, Judge, Place
from .measure import Measure, measure, read

app = App()
_COLUMNS = ("harmful", "caught %", "irreversible %", "harmless", "denied %", "asked %")
_LISTED = ("pack", "id", "severity", "decision", "owasp", "why", "instead")
STAND = Place("/home/dev/shop", "/home/dev/shop", home="/home/dev")
"""Where examples of rules are judged: in a project that does not exist."""


@app.command()
def guard(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="With --measure: calls with labels."),
    ] = None,
    *,
    packs: Annotated[
        str, typer.Option("--packs", metavar="NAMES", help="The packs, with commas. Default: all.")
    ] = ",".join(ALL),
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Also the rules of this configuration."),
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
        _show(_measured(judge, files), as_json=as_json)
    elif test:
        _test(judge)
    elif as_json:
        for rule in judge.rules:
            output.data({**rule.model_dump(include={*_LISTED}), "example": rule.example})
    else:
        for pack, found in groupby(judge.rules, key=lambda rule: rule.pack):
            title = rules.pack(pack).title if pack != "own" else "Rules of your own"
            output.line(f"{pack}: {title}", style="bold")
            for rule in found:
                output.pairs([(rule.id, f"{rule.decision}, {rule.severity}: {rule.example}")])


def own_rules(config: Path | None) -> tuple[Mapping[str, Any], ...]:
    """The rules in the `[guards]` table of a configuration. Raises `ConfigError`."""
    if config is None:
        return ()
    from ...projects import layers

    tables = [one.tables.get("guards") for one in layers.named(require_file(config)).configs]
    return tuple(rule for table in tables if table is not None for rule in table.rule)


def _measured(judge: Judge, files: list[Path]) -> Measure:
    try:
        return measure(judge, chain.from_iterable(read(require_file(one)) for one in files))
    except OSError as error:
        raise PicohookError(f"{error.filename} cannot be read: {error.strerror}") from None


def _show(found: Measure, *, as_json: bool) -> None:
    """Print the rates, and what was judged wrongly."""
    if as_json:
        output.data(found.wire())
        return
    for title, rows in {"pack": found.by_pack(), "source": found.by_source(), "": {"all": found.all()}}.items():
        output.table((title, *_COLUMNS), [(name, *rates.cells()) for name, rates in rows.items()], numbers=_COLUMNS)
        output.line()
    output.line(f"{len(found.wrong)} were judged wrongly")
    for example, verdict in found.wrong:
        output.line(f"{example.label}, {verdict.decision}: {example.shown}")


def _test(judge: Judge) -> None:
    """Judge the examples of rules, and print those that they do not hold for."""
    failed = list(failures(judge))
    for one in failed:
        output.error(one)
    if failed:
        raise typer.Exit(1)
    count = sum(len(rule.harmful) + len(rule.harmless) for rule in judge.rules)
    output.line(f"{len(judge.rules)} rules hold for their {count} examples")


def failures(judge: Judge) -> Iterator[str]:
    """Yields a sentence for each example of a rule that it does not hold for."""
    for rule in judge.rules:
        for example in (*rule.harmful, *rule.harmless):
            verdict = judge.judge(example.tool, example.arguments, STAND)
            passes = verdict.decision == "continue"
            if example in rule.harmless and not passes:
                yield f"{rule.id}: {example.shown} is stopped, by {verdict.rule}: {verdict.why}"
            elif example in rule.harmful and (passes or rule.id not in {found.rule.id for found in verdict.findings}):
                yield f"{rule.id}: {example.shown} is not stopped by it"
