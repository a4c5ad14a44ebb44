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
from .reading import in_quotes
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
    shown = _wire(judge.judge(tool, arguments, Place.here()))
    if as_json:
        output.data(shown)
    else:
        _show(shown)


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
        "rules": [found.rule.id for found in verdict.findings],
    }


def _show(shown: dict[str, Any]) -> None:
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
