"""`picohook control`: inspects and controls a running host through its control socket."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json
from ...errors import PicohookError
from ...wire.text import escape
from .client import Socket, ask, connected, request

app = App(no_args_is_help=True, help="Inspect a running host, and control it.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The hook.")]


@app.command()
def status(control: Socket, as_json: Json = False) -> None:
    """Show the state of every hook."""
    if (answer := _asked(control, "status", as_json=as_json)) is None:
        return
    columns = ("state", "pid", "starts", "calls", "failures", "last_error")
    output.table(
        ("hook", "state", "pid", "starts", "calls", "failures", "last error"),
        (
            [hook["name"], *("" if hook[column] is None else str(hook[column]) for column in columns)]
            for hook in answer["hooks"]
        ),
    )
    if proofs := answer.get("proof_of_life"):
        age, alarms = proofs["last_denial_age"], proofs["alarms"]
        last = "no harmful call was denied yet" if age is None else f"harmful calls were last denied {age:.0f} s ago"
        wrong = (f"{one['tool']} was {one['verdict'].replace('_', ' ')} ({one['why']})" for one in alarms)
        output.line()
        output.line(f"proof of life: {'; '.join([last, *wrong])}", style="bold red" if alarms else "")


@app.command("list")
def list_hooks(control: Socket, as_json: Json = False) -> None:
    """List the hooks in the order they are asked, stage by stage.

    Also lists the hooks that get events.
    """
    if (answer := _asked(control, "list", as_json=as_json)) is None:
        return
    for stage, hooks in answer["stages"].items():
        rows = [(f"  {hook['hook']}", hook["layer"], f"{hook['timeout']:g} s") for hook in hooks]
        _section(stage, ("  hook", "layer", "timeout"), rows)
    if answer["events"]:
        rows = [(f"  {hook['hook']}", hook["layer"], " ".join(hook["observe"])) for hook in answer["events"]]
        _section("events", ("  hook", "layer", "kinds"), rows)


@app.command()
def metrics(control: Socket, as_json: Json = False) -> None:
    """Print counts and times in Prometheus' text format."""
    if (answer := _asked(control, "metrics", as_json=as_json)) is not None:
        output.verbatim("\n".join(map(escape, answer.rstrip("\n").split("\n"))))


@app.command()
def prove(control: Socket, as_json: Json = False) -> None:
    """Ask the hooks now about harmful calls that they must deny.

    The calls are those of [proof_of_life], and each hook's canary. No tool is called. Exits with 1 if a call was not denied,
    or was denied only because a hook failed.
    """
    proofs = ask(control, "prove", timeout=None)
    if as_json:
        output.data(proofs)
    else:
        rows = [(proof["gate"] or "all hooks", proof["tool"], proof["verdict"], proof["why"]) for proof in proofs]
        output.table(("asked", "tool", "verdict", "answers"), rows)
    if any(proof["verdict"] != "denied" for proof in proofs):
        raise typer.Exit(1)


@app.command()
def reload(control: Socket, as_json: Json = False) -> None:
    """Make the host read its configuration again, and apply it.

    Exits with 1 if a hook does not start, or if the configuration is wrong. A wrong one changes nothing.
    """
    answer = ask(control, "reload", timeout=None)
    if as_json:
        output.data(answer)
    else:
        output.pairs((kind, ", ".join(names)) for kind, names in answer.items() if kind != "failed" and names)
        for name, why in answer["failed"].items():
            output.error(f"{name} does not start: {why}")
    if answer["failed"]:
        raise typer.Exit(1)


@app.command()
def reset(name: Name, control: Socket, as_json: Json = False) -> None:
    """Start a failed hook again."""
    _asked(control, "reset", {"hook": name}, as_json=as_json)


@app.command()
def restart(name: Name, control: Socket, as_json: Json = False) -> None:
    """End the process of a hook, and start a new one. Calls in flight fail."""
    _asked(control, "restart", {"hook": name}, as_json=as_json)


@app.command()
def watch(control: Socket, as_json: Json = False) -> None:
    """Show decisions and changes of hooks as they happen.

    Ends when it is interrupted.
    """
    with connected(control, None) as connection:
        request(connection, "watch")
        for line in connection:
            change = json.loads(line)
            if as_json:
                output.data({"kind": change["method"], **change["params"]})
            else:
                output.line(f"{change['method']:<8}  {_shown(change['params'])}")
    raise PicohookError(f"the host at {control} closed the connection: it ended, or this command read too slowly")


def _shown(change: Mapping[str, Any]) -> str:
    """The facts of a change, without the trail of an outcome."""
    facts = ((name, value) for name, value in change.items() if name != "trail" and value not in (None, "", [], {}))
    return ", ".join(f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in facts)


def _section(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    output.line(title, style="bold cyan")
    output.table(columns, rows)
    output.line()


def _asked(control: Path, method: str, params: Any = None, *, as_json: bool) -> Any:
    """Returns the host's answer; None if it was printed as JSON."""
    answer = ask(control, method, params)
    if as_json:
        output.data(answer)
    return None if as_json else answer
