"""`picohook top`: the hooks of a running host, live. Rates come from two readings of the host, and memory from the system."""

import os
import select
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from ...cli import live, output, stats
from ...cli.command import App, Json, seconds
from ...wire import words
from ...wire.text import escape
from .client import TIMEOUT, Socket, opened, receive, send

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

app = App()

_STYLES = {"ready": "green", "failed": "bold red"}
_DENIALS = (words.DENY, words.ABORT_TURN, words.HARD_ABORT)
_NUMBERS = ("calls/s", "p50 ms", "p99 ms", "denied", "failed", "drops", "restarts", "memory")
_COLUMNS = live.Columns(
    ("hook", "state", "pid", *_NUMBERS), frozenset(_NUMBERS), ("pid", "memory", "drops", "p50 ms", "restarts", "denied")
)
_AROUND = 3
"""The lines above the first hook."""
_GROUP, _RSS = 2, 21
"""Fields of /proc/PID/stat, counted from the one after the name."""


class Look(NamedTuple):
    """A host's status at a time."""

    status: Mapping[str, Any]
    at: float
    """Seconds, on a monotonic clock."""


@app.command()
def top(
    control: Socket,
    once: Annotated[bool, typer.Option("--once", help="Print one table after one interval, and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="The time between two updates.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Show the hooks of a running host, live.

    Shows state, calls, times, failures, drops, restarts and memory in the terminal until q is typed. With --once it prints one
    table, and with --json one line every interval. Times cover all calls since the host started. Drops are events and lines.
    Memory is that of all processes of a hook.
    """
    live.begin(plain=once or as_json)
    with opened(control, TIMEOUT) as connection:
        try:
            if once or as_json:
                _print(_looks(connection, interval, None), once=once, as_json=as_json)
            else:
                _show(connection, interval, str(control))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _print(looks: Iterator[dict[str, Any]], *, once: bool, as_json: bool) -> None:
    next(looks)  # the first reading has no rates
    for shown in looks:
        if as_json:
            output.data(shown)
        else:
            output.show(_table(shown))
            stats.show_proofs(shown["proof_of_life"])
        if once:
            return


def _show(connection: socket.socket, interval: float, name: str) -> None:
    from rich.console import Group  # not where the output is JSON
    from rich.live import Live
    from rich.text import Text

    with live.keys() as keys, Live(console=output.console(), screen=True, auto_refresh=False) as view:
        for shown in _looks(connection, interval, keys):
            title = f"{name}   containment: {shown['containment']}   every {interval:g} s   q quits"
            size = view.console.size
            table = _table(shown, size.width, size.height - _AROUND)
            view.update(Group(Text(escape(title), style="bold", no_wrap=True), _proofs(shown), table), refresh=True)


def _looks(connection: socket.socket, interval: float, keys: int | None) -> Iterator[dict[str, Any]]:
    """Yields the figures of the host every interval, until q is typed. The q also works while the host does not answer."""
    before = None
    with connection.makefile("rwb") as file:
        lines = cast(IO[bytes], file)
        while True:
            began = time.monotonic()
            send(lines, "status")
            if _typed_q(keys, connection, TIMEOUT):
                return
            now = Look(receive(lines), time.monotonic())
            yield figures(before, now, memory({hook["pid"] for hook in now.status["hooks"]}))
            before = now
            if _typed_q(keys, None, max(began + interval - time.monotonic(), 0)):
                return


def _typed_q(keys: int | None, connection: socket.socket | None, timeout: float) -> bool:
    """Wait for the host's answer, or without a connection for `timeout` seconds. Returns whether q was typed meanwhile.

    Raises `TimeoutError` if the host does not answer.
    """
    deadline = time.monotonic() + timeout
    watched = [one for one in (keys, connection) if one is not None]
    while True:
        ready = select.select(watched, (), (), max(deadline - time.monotonic(), 0))[0]
        if keys in ready:
            typed = os.read(keys, 1024)
            if b"q" in typed.lower():
                return True
            if not typed:
                watched.remove(keys)  # the end of the input
        if connection in ready:
            return False
        if not ready:
            if connection is not None:
                raise TimeoutError
            return False


def _table(shown: dict[str, Any], width: int | None = None, height: int | None = None) -> "Table | Group":
    """Returns the hooks as a table, and below it the last error of each.

    If there are too few lines, each hook has one and no error, and hooks with problems come first.
    """
    from rich.console import Group  # not where the output is JSON
    from rich.text import Text

    hooks = shown["hooks"]
    errors = [
        Text(
            escape(f"{hook['name']}: {hook['last_error']}"), style="red", no_wrap=width is not None, overflow="ellipsis"
        )
        for hook in hooks
        if hook["last_error"]
    ]
    lines = sum(_lines_of(hook) for hook in hooks) + len(errors)
    whole = height is None or lines <= height
    if not whole:  # a line for each hook
        hooks = sorted(hooks, key=lambda hook: (hook["state"] == "ready", -hook["failures"]))
    rows = [row for hook in hooks for row in _rows(hook, with_stages=whole)]
    table = live.table(_COLUMNS, rows, _style, width, height)
    return Group(table, *errors) if whole and errors else table


def _style(column: str, row: live.Row) -> str:
    state = row.get("state", "")
    return {"hook": "dim" if not state else "", "state": _STYLES.get(state, "bold yellow")}.get(column, "")


def _proofs(shown: dict[str, Any]) -> "Text":
    """Returns a line about proofs of life; empty if the host gives none."""
    from rich.text import Text

    proofs = shown["proof_of_life"]
    if proofs is None:
        return Text()
    style = "bold red" if proofs["alarms"] else ""
    return Text(escape(stats.proofs(proofs)), style=style, no_wrap=True, overflow="ellipsis")


def _lines_of(hook: dict[str, Any]) -> int:
    return 1 + len(hook["stages"]) if len(hook["stages"]) > 1 else 1


def _rows(hook: dict[str, Any], *, with_stages: bool) -> list[dict[str, str]]:
    """Returns a hook's cells by column, and with its stages those of each. Without them, times are of the slowest stage."""
    stages, size = hook["stages"], hook["memory_bytes"]
    several = with_stages and len(stages) > 1
    slowest: dict[str, Any] = (
        {} if several else max(stages.values(), key=lambda stage: stage["p99_ms"] or 0.0, default={})
    )
    own = {
        "hook": hook["name"],
        "state": hook["state"],
        "pid": str(hook["pid"] or "-"),
        **_times(hook, slowest),
        "drops": str(hook["dropped"]),
        "restarts": str(hook["restarts"]),
        "memory": "-" if size is None else f"{size / 1e6:.1f}M",
    }
    return [own, *({"hook": f"  {name}", **_times(stage, stage)} for name, stage in stages.items() if several)]


def _times(counts: dict[str, Any], stage: dict[str, Any]) -> dict[str, str]:
    is_asked = counts.get("state") != "failed"
    return {
        "calls/s": _number(counts["calls_per_second"] if is_asked else None),
        "p50 ms": _number(stage.get("p50_ms")),
        "p99 ms": _number(stage.get("p99_ms")),
        "denied": str(counts["denials"]),
        "failed": str(counts["failures"]),
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def figures(before: Look | None, now: Look, memory: Mapping[int, int]) -> dict[str, Any]:
    """Returns the figures of all hooks as plain JSON. Rates are None without an earlier reading."""
    past = {} if before is None else {hook["name"]: hook for hook in before.status["hooks"]}
    seconds = None if before is None else now.at - before.at
    return {
        "containment": now.status["containment"],
        "proof_of_life": now.status.get("proof_of_life"),
        "hooks": [_hook(hook, past.get(hook["name"]), seconds, memory) for hook in now.status["hooks"]],
    }


def _hook(
    hook: Mapping[str, Any], past: Mapping[str, Any] | None, seconds: float | None, memory: Mapping[int, int]
) -> dict[str, Any]:
    earlier = past["stages"] if past else {}
    stages = {
        name: {
            "calls": stage["executions"],
            "calls_per_second": _rate(stage["executions"], earlier.get(name, {}).get("executions", 0), seconds),
            "p50_ms": stage["p50_ms"] if stage["executions"] else None,
            "p99_ms": stage["p99_ms"] if stage["executions"] else None,
            "denials": sum(stage["decisions"].get(action, 0) for action in _DENIALS),
            "failures": sum(stage["failures"].values()),
        }
        for name, stage in hook["stages"].items()
    }
    return {
        "name": hook["name"],
        "state": hook["state"],
        "pid": hook["pid"],
        "calls": sum(stage["calls"] for stage in stages.values()),
        "calls_per_second": None if seconds is None else sum(stage["calls_per_second"] for stage in stages.values()),
        "denials": sum(stage["denials"] for stage in stages.values()),
        "failures": sum(stage["failures"] for stage in stages.values()),
        "dropped": hook["dropped_events"] + hook["dropped_lines"],
        "restarts": max(hook["starts"] - 1, 0),
        "memory_bytes": memory.get(hook["pid"]),
        "last_error": hook["last_error"],
        "stages": stages,
    }


def _rate(count: int, before: int, seconds: float | None) -> float | None:
    """Returns the increase per second. A count that went down belongs to a new hook with the same name."""
    if seconds is None:
        return None
    return round((count - before if count >= before else count) / seconds, 3)


def memory(leaders: Collection[int], proc: str = "/proc") -> dict[int, int]:
    """Returns the resident bytes of the process group that each of these processes leads. Empty without a /proc."""
    held: dict[int, int] = {}
    try:
        numbers = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return held
    page = os.sysconf("SC_PAGE_SIZE")
    for number in numbers:
        try:
            with open(f"{proc}/{number}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        group = int(fields[_GROUP])
        if group in leaders:
            held[group] = held.get(group, 0) + int(fields[_RSS]) * page
    return held
