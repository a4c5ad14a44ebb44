"""`picohook explain`: what guards read in a call, and which rule decides."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json
from .hook import root_of
from .judge import ALL, USUAL, Judge, Place, Verdict

if TYPE_CHECKING:
    from .reading import Command

app = App()
_COLOURS = {"deny": "red", "ask": "yellow", "continue": "green"}
_SHOWN_ACTS = {"mention", "words-from", "content", "memory", "look-up"}


@app.command()
def explain(
    line: Annotated[str, typer.Argument(metavar="[LINE]", help="A shell command.", show_default=False)] = "",
    *,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Another tool, such as Write.")] = "Bash",
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="The arguments of the tool.", show_default=False)
    ] = None,
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
    here = os.getcwd()
    arguments = _object(params) if params is not None else {"command": line}
    verdict = judge.judge(tool, arguments, Place(here, root_of(here)))
    if as_json:
        output.data(_wire(verdict))
    else:
        _show(verdict)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--params") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="--params")
    return found


def _batch(judge: Judge) -> None:
    """Judge each line of stdin, and answer it at once. A line that is no call is denied, and then the exit code is 1."""
    here, wrong = Place(os.getcwd(), root_of(os.getcwd())), False
    for number, text in enumerate(sys.stdin.buffer, 1):
        if not text.strip():
            continue
        call: Any = None
        try:
            call = json.loads(text)
            tool, arguments = call["tool"], call["arguments"]
            if not isinstance(tool, str) or not isinstance(arguments, dict):
                raise TypeError
            cwd = str(call.get("cwd") or here.cwd)
            project = str(call.get("project") or (here.project if "cwd" not in call else cwd))
            place = Place(cwd, project, str(call.get("agent") or ""), str(call.get("home") or ""))
            verdict = judge.judge(tool, arguments, place)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            why = f'Line {number} is no call: write {{"id": ..., "tool": "...", "arguments": {{...}}}}.'
            verdict, wrong = Verdict("deny", "undecided", why=why), True
        call_id = call.get("id") if isinstance(call, dict) else None
        answer = {"id": call_id, "decision": verdict.decision, "rule": verdict.rule, "reason": verdict.reason}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()  # a program may wait for it before it writes the next one
    if wrong:
        raise typer.Exit(1)


def _wire(verdict: Verdict) -> dict[str, Any]:
    reading = verdict.reading
    return {
        "decision": verdict.decision,
        "rule": verdict.rule,
        "severity": verdict.severity,
        "why": verdict.why,
        "instead": verdict.instead,
        "commands": [
            {"words": [w.shown for w in one.words], "runs_in": [*map(_place, one.cwds)], "by": list(one.via)}
            for one in _commands(verdict)
        ],
        "acts": [{"act": kind, "on": on, "place": place} for kind, on, place in _acts(verdict)],
        "undecided": [doubt.why for doubt in reading.doubts],
        "rules": [found.rule.id for found in verdict.findings],
    }


def _commands(verdict: Verdict) -> list[Command]:
    return [one for one in verdict.reading.commands if one.name != "{"]


def _acts(verdict: Verdict) -> list[tuple[str, str, str]]:
    """What the call does: the act, on what, and where that is. Each once."""
    made = [
        (act.kind, _place(act.target.path) or act.detail, act.target.place)
        for act in verdict.reading.acts
        if act.kind not in _SHOWN_ACTS and act.target.place != "null"
    ]
    return list(dict.fromkeys(made))


def _place(text: str) -> str:
    from .words import Word

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
    for command in _commands(verdict)[:40]:
        by = f"  (started by {', '.join(command.via)})" if command.via else ""
        output.line(f"runs     {command.line}{by}")
        if command.cwds:
            output.line(f"         in {' or '.join(map(_place, command.cwds))}")
    for kind, on, place in _acts(verdict)[:60]:
        output.line(f"{kind:<8} {on}" + (f"  ({place})" if place else ""))
    for doubt in verdict.reading.doubts:
        output.line(f"unknown  {doubt.why}", style="yellow")
    others = list(dict.fromkeys(found.rule.id for found in verdict.findings if found.rule.id != verdict.rule))
    if others:
        output.line(f"Other rules: {', '.join(others)}")
