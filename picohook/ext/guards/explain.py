"""`picohook explain`: what guards read in a call, and which rule decides."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json
from ...config.checks import validate
from ...config.problems import Problems
from .call import Call
from .judge import ALL, USUAL, Judge, Place, Verdict
from .words import Word

app = App()
_COLOURS = {"deny": "red", "ask": "yellow", "continue": "green"}
_HIDDEN_ACTS = {"mention", "words-from", "content", "memory", "look-up"}


@app.command()
def explain(
    line: Annotated[str, typer.Argument(metavar="[LINE]", help="A shell command.")] = "",
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Another tool, such as Write.")] = "Bash",
    params: Annotated[str | None, typer.Option("--params", metavar="JSON", help="The arguments of the tool.")] = None,
    packs: Annotated[str, typer.Option("--packs", metavar="NAMES", help="The packs, with commas.")] = ",".join(ALL),
    batch: Annotated[bool, typer.Option("--batch", help="Judge calls from stdin, as JSON lines.")] = False,
    as_json: Json = False,
) -> None:
    """Show what guards read in a call, and decide.

    It names the rule and the safer way. Nothing runs. --batch reads {"id", "tool", "arguments"} from each line, and prints
    {"id", "decision", "rule", "reason"}. A line may also have "cwd", "project" and "agent".
    """
    judge = Judge([name for name in packs.split(",") if name])
    if batch:
        _batch(judge)
        return
    if params is None and not line:
        raise typer.BadParameter("give a command, or --tool and --params", param_hint="LINE")
    arguments = {"command": line} if params is None else _parsed(params)
    if not isinstance(arguments, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="--params")
    verdict = judge.judge(tool, arguments, Place.here())
    if as_json:
        output.data(_wire(verdict))
    else:
        _show(verdict)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--params") from None


def _batch(judge: Judge) -> None:
    """Judge each line of stdin, and answer it at once. A line that is no call is denied, and then the exit code is 1."""
    wrong = False
    for number, text in enumerate(sys.stdin.buffer, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        call = validate(Call, row, Problems(""))
        if call is not None:
            verdict = judge.judge(call.tool, call.arguments, call.place)
        else:
            wrong = True
            why = f'Line {number} is no call: write {{"id": ..., "tool": "...", "arguments": {{...}}}}.'
            verdict = Verdict("deny", "undecided", why=why)
        output.data({"id": row.get("id") if isinstance(row, dict) else None, **verdict.wire()})
    if wrong:
        raise typer.Exit(1)


def _wire(verdict: Verdict) -> dict[str, Any]:
    return {
        **{name: getattr(verdict, name) for name in ("decision", "rule", "severity", "why", "instead")},
        "commands": [
            {"words": [word.shown for word in one.words], "runs_in": [*map(_shown, one.cwds)], "by": list(one.via)}
            for one in verdict.reading.commands
            if one.name != "{"
        ],
        "acts": [{"act": kind, "on": on, "place": place} for kind, on, place in _acts(verdict)],
        "undecided": [doubt.why for doubt in verdict.reading.doubts],
        "rules": [found.rule.id for found in verdict.findings],
    }


def _acts(verdict: Verdict) -> list[tuple[str, str, str]]:
    """What the call does: the act, on what, and where that is. Each once."""
    made = [
        (act.kind, _shown(act.target.path) or act.detail, act.target.place)
        for act in verdict.reading.acts
        if act.kind not in _HIDDEN_ACTS and act.target.place != "null"
    ]
    return list(dict.fromkeys(made))


def _shown(text: str) -> str:
    return Word(text).shown


def _show(verdict: Verdict) -> None:
    output.line(f"{verdict.decision}  {verdict.rule}".rstrip(), style=_COLOURS[verdict.decision])
    if verdict.why:
        output.line(verdict.why)
    if verdict.instead:
        output.line(f"Instead: {verdict.instead}")
    pack = verdict.rule.partition(".")[0]
    if pack in ALL and pack not in USUAL:
        output.line(f"The pack {pack} counts where a configuration names it: an empty [guards] does not have it.")
    output.line()
    commands = [one for one in verdict.reading.commands if one.name != "{"]
    for command in commands[:40]:
        by = f"  (started by {', '.join(command.via)})" if command.via else ""
        output.line(f"runs     {command.line}{by}")
        if command.cwds:
            output.line(f"         in {' or '.join(map(_shown, command.cwds))}")
    for kind, on, place in _acts(verdict)[:60]:
        output.line(f"{kind:<8} {on}" + (f"  ({place})" if place else ""))
    for doubt in verdict.reading.doubts:
        output.line(f"unknown  {doubt.why}", style="yellow")
    others = dict.fromkeys(found.rule.id for found in verdict.findings if found.rule.id != verdict.rule)
    if others:
        output.line(f"Other rules: {', '.join(others)}")
