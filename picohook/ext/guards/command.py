"""`picohook guard`: the packs and rules, and how well they do. `picohook explain`: what guards read in a call, and decide."""

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json, require_file
from . import rules
from .call import Call, calls
from .judge import ALL, UNDECIDED, USUAL, Judge, Place, Verdict
from .measure import Measure, measure, read
from .reading import in_quotes
from .words import Word

app = App()
explain_app = App()
_COLOURS = {"deny": "red", "ask": "yellow", "continue": "green"}
_HIDDEN_ACTS = {"mention", "variable", "content", "memory", "look-up"}
_COLUMNS = ("harmful", "caught %", "irreversible %", "harmless", "denied %", "asked %")
_LISTED = ("pack", "id", "severity", "decision", "owasp", "why", "instead")
STAND = Place("/home/dev/shop", "/home/dev/shop", "/home/dev")
"""Where examples of rules are judged: in a project that does not exist."""


@app.command()
def guard(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="With --measure: calls with labels."),
    ] = None,
    *,
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
    judge = Judge(ALL, own=own_rules(config))
    if files:
        found = measure(judge, chain.from_iterable(map(read, map(require_file, files))))
        output.data(found.wire()) if as_json else _show(found)
    elif test:
        failed = list(failures(judge))
        for one in failed:
            output.error(one)
        if failed:
            raise typer.Exit(1)
        count = sum(len(rule.harmful) + len(rule.harmless) for rule in judge.rules)
        output.line(f"{len(judge.rules)} rules hold for their {count} examples")
    elif as_json:
        for rule in judge.rules:
            output.data({**rule.model_dump(include={*_LISTED}), "example": rule.example})
    else:
        for pack, listed in groupby(judge.rules, key=lambda rule: rule.pack):
            title = rules.pack(pack).title if pack != "own" else "Rules of your own"
            output.line(f"{pack}: {title}", style="bold")
            output.pairs((rule.id, f"{rule.decision}, {rule.severity}: {rule.example}") for rule in listed)


def own_rules(config: Path | None) -> tuple[Mapping[str, Any], ...]:
    """The rules in the `[guards]` table of a configuration. Raises `ConfigError`."""
    if config is None:
        return ()
    from ...projects import layers

    tables = [one.tables.get("guards") for one in layers.named(require_file(config)).configs]
    return tuple(rule for table in tables if table is not None for rule in table.rule)


def _show(found: Measure) -> None:
    """Print the rates, and what was judged wrongly."""
    for title, rows in {"pack": found.by("pack"), "source": found.by("source"), "": {"all": found.rates()}}.items():
        cells = [[name, *("" if value is None else str(value) for value in rates)] for name, rates in rows.items()]
        output.table((title, *_COLUMNS), cells, numbers=_COLUMNS)
        output.line()
    output.line(f"{len(found.wrong)} were judged wrongly")
    for example, verdict in found.wrong:
        output.line(f"{example.label}, {verdict.decision}: {example.shown}")


def failures(judge: Judge) -> Iterator[str]:
    """Yields a sentence for each example of a rule that it does not hold for."""
    for rule in judge.rules:
        for example in (*rule.harmful, *rule.harmless):
            verdict = judge.judge(example.tool, example.arguments, STAND)
            passes = verdict.decision == "continue"
            if example in rule.harmless and not passes:
                yield f"{rule.id}: {example.shown} is stopped, by {verdict.rule}: {verdict.why}"
            elif example in rule.harmful and (passes or rule.id not in {found.id for found in verdict.rules}):
                yield f"{rule.id}: {example.shown} is not stopped by it"


@explain_app.command()
def explain(
    line: Annotated[str, typer.Argument(metavar="[LINE]", help="A shell command.")] = "",
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Another tool, such as Write.")] = "Bash",
    params: Annotated[str | None, typer.Option("--params", metavar="JSON", help="The arguments of the tool.")] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Judge calls from stdin, as JSON lines.")] = False,
    as_json: Json = False,
) -> None:
    """Show what guards read in a call, and decide.

    It names the rule and the safer way. Nothing runs. --batch reads {"id", "tool", "arguments"} from each line, and prints
    {"id", "decision", "rule", "reason"}. A line may also have "cwd", "project" and "agent".
    """
    judge = Judge(ALL)
    if batch:
        _batch(judge)
        return
    if params is None and not line:
        raise typer.BadParameter("give a command, or --tool and --params", param_hint="LINE")
    try:
        arguments = {"command": line} if params is None else json.loads(params)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--params") from None
    if not isinstance(arguments, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="--params")
    shown = _wire(judge.judge(tool, arguments, Place.here()))
    if as_json:
        output.data(shown)
    else:
        _explain(shown)


def _batch(judge: Judge) -> None:
    """Judge each line of stdin, and answer it at once. A line that is no call is denied, and then the exit code is 1."""
    wrong = False
    for row, call, problem in calls(sys.stdin.buffer, Call):
        if call is None:
            why = f'{problem}; write {{"id": ..., "tool": "...", "arguments": {{...}}}}.'
            verdict, wrong = Verdict("deny", UNDECIDED, why=why), True
        else:
            verdict = judge.judge(call.tool, call.arguments, call.place)
        output.data({"id": row.get("id") if isinstance(row, dict) else None, **verdict.wire()})
    if wrong:
        raise typer.Exit(1)


def _wire(verdict: Verdict) -> dict[str, Any]:
    acts = [
        (act.kind, Word(act.target.path).shown or act.detail, act.target.place)
        for act in verdict.reading.acts
        if act.kind not in _HIDDEN_ACTS and act.target.place != "null"
    ]
    return {
        **{name: getattr(verdict, name) for name in ("decision", "rule", "severity", "why", "instead")},
        "commands": [
            {
                "words": [word.shown for word in one.words],
                "runs_in": [Word(cwd).shown for cwd in one.cwds],
                "by": list(one.via),
            }
            for one in verdict.reading.commands
            if one.name != "{"
        ],
        "acts": [{"act": kind, "on": on, "place": place} for kind, on, place in dict.fromkeys(acts)],
        "undecided": [doubt.why for doubt in verdict.reading.doubts],
        "rules": [rule.id for rule in verdict.rules],
    }


def _explain(shown: dict[str, Any]) -> None:
    output.line(f"{shown['decision']}  {shown['rule']}".rstrip(), style=_COLOURS[shown["decision"]])
    if shown["why"]:
        output.line(shown["why"])
    if shown["instead"]:
        output.line(f"Instead: {shown['instead']}")
    pack = shown["rule"].partition(".")[0]
    if pack in ALL and pack not in USUAL:
        output.line(f"The pack {pack} counts where a configuration names it: an empty [guards] does not have it.")
    output.line()
    for command in shown["commands"][:40]:
        by = f"  (started by {', '.join(command['by'])})" if command["by"] else ""
        output.line(f"runs     {' '.join(map(in_quotes, command['words']))}{by}")
        if command["runs_in"]:
            output.line(f"         in {' or '.join(command['runs_in'])}")
    for act in shown["acts"][:60]:
        output.line(f"{act['act']:<8} {act['on']}" + (f"  ({act['place']})" if act["place"] else ""))
    for doubt in shown["undecided"]:
        output.line(f"unknown  {doubt}", style="yellow")
    if others := [one for one in dict.fromkeys(shown["rules"]) if one != shown["rule"]]:
        output.line(f"Other rules: {', '.join(others)}")
