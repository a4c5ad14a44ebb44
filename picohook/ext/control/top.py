"""`picohook top`: the hooks of a running host, live. Rates come from two readings of the host, and memory from the system."""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...cli import output
from ...cli.command import App, Json, exit_at_signals, seconds
from ...wire import words
from ...wire.text import escape
from .client import TIMEOUT, Socket, connected, request

if TYPE_CHECKING:
    from rich.console import Group

app = App()

_STYLES = {"ready": "green", "failed": "bold red"}
_DENIALS = (words.DENY, words.ABORT_TURN, words.HARD_ABORT)
_COLUMNS = ("hook", "state", "pid", "calls/s", "p50 ms", "p99 ms", "denied", "failed", "drops", "restarts", "memory")
_LEFT_OUT = ("pid", "memory", "drops", "p50 ms", "restarts", "denied")
"""The columns that a narrow terminal leaves out, in this order, to give names room."""
_NAME = 24
"""The most characters of a name for which other columns are left out."""
_ABOVE = 2
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
    is_live = not (once or as_json)
    if is_live and not sys.stdout.isatty():
        raise typer.BadParameter("a live view needs a terminal: use --once or --json")
    exit_at_signals()
    try:
        if is_live:
            _show_live(_looks(control), f"{control}   every {interval:g} s   q quits", interval)
        else:
            _print(_looks(control), interval, once=once, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _looks(control: Path) -> Iterator[dict[str, Any]]:
    """Yields the figures of the host, each time that it is asked for them."""
    before = None
    with connected(control, TIMEOUT) as connection:
        while True:
            now = Look(request(connection, "status"), time.monotonic())
            yield figures(before, now, memory({hook["pid"] for hook in now.status["hooks"]}))
            before = now


def _print(looks: Iterator[dict[str, Any]], interval: float, *, once: bool, as_json: bool) -> None:
    next(looks)  # the first reading has no rates
    while True:
        time.sleep(interval)
        shown = next(looks)
        if as_json:
            output.data(shown)
        else:
            output.show(_table(shown["hooks"]))
        if once:
            return


def _show_live(looks: Iterator[dict[str, Any]], title: str, interval: float) -> None:
    from rich.console import Group  # not where the output is JSON
    from rich.live import Live
    from rich.text import Text

    with _keys() as keys, Live(console=output.console(), screen=True, auto_refresh=False) as view:
        for shown in looks:
            line = f"{title}   containment: {shown['containment']}"
            size = view.console.size
            table = _table(shown["hooks"], size.width, size.height - _ABOVE)
            view.update(Group(Text(escape(line), style="bold", no_wrap=True, overflow="ellipsis"), table), refresh=True)
            if _typed_q(keys, time.monotonic() + interval):
                return


@contextlib.contextmanager
def _keys() -> Iterator[list[int]]:
    """Yields the descriptor of a terminal that gives each key as it is typed, if there is one. Restores it at the end."""
    if not sys.stdin.isatty():
        yield []
        return
    before = termios.tcgetattr(0)
    try:
        tty.setcbreak(0)
        yield [0]
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _typed_q(keys: list[int], until: float) -> bool:
    """Wait until then. Returns at once whether q was typed."""
    while select.select(keys, (), (), max(until - time.monotonic(), 0))[0]:
        typed = os.read(keys[0], 1024)
        if b"q" in typed.lower():
            return True
        if not typed:
            keys.clear()  # the end of the input
    return False


def _table(hooks: Sequence[dict[str, Any]], width: int | None = None, height: int | None = None) -> "Group":
    """Returns the hooks as a table, and below it the last error of each. Those with problems come first.

    In a narrow terminal, columns are left out. If there are too few lines, the last one says how many hooks are not shown.
    """
    from rich.console import Group  # not where the output is JSON
    from rich.table import Table
    from rich.text import Text

    def text(value: str, style: str = "") -> Text:
        return Text(escape(value), style=style, no_wrap=width is not None, overflow="ellipsis")

    hooks = sorted(hooks, key=lambda hook: (hook["state"] == "ready", -hook["failures"]))
    hidden = 0 if height is None or len(hooks) <= height else len(hooks) - height + 1
    rows = [_row(hook) for hook in hooks[: len(hooks) - hidden]]
    columns = list(_COLUMNS)
    widths = {name: max(len(name), *(len(row[name]) for row in rows), 0) + 1 for name in columns}
    widths["hook"] = min(widths["hook"], _NAME + 1)
    for name in _LEFT_OUT if width is not None else ():
        if sum(widths[column] for column in columns) - 1 > (width or 0):
            columns.remove(name)
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="left" if name in {"hook", "state", "pid"} else "right", no_wrap=name != "hook")
    for row in rows:
        styles = {"state": _STYLES.get(row["state"], "bold yellow")}
        made.add_row(*(text(row[name], styles.get(name, "")) for name in columns))
    errors = [text(f"{hook['name']}: {hook['last_error']}", "red") for hook in hooks if hook["last_error"]]
    left = None if height is None else max(height - len(rows), 0)
    return Group(made, *([text(f"and {hidden} more", "dim")] if hidden else errors[:left]))


def _row(hook: dict[str, Any]) -> dict[str, str]:
    """Returns a hook's cells by column."""
    size, rate = hook["memory_bytes"], None if hook["state"] == "failed" else hook["calls_per_second"]
    numbers = (rate, hook["p50_ms"], hook["p99_ms"])
    counts = (hook["denials"], hook["failures"], hook["dropped"], hook["restarts"])
    cells = (
        hook["name"],
        hook["state"],
        str(hook["pid"] or "-"),
        *("-" if number is None else f"{number:.1f}" for number in numbers),
        *map(str, counts),
        "-" if size is None else f"{size / 1e6:.1f}M",
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def figures(before: Look | None, now: Look, memory: Mapping[int, int]) -> dict[str, Any]:
    """Returns the figures of all hooks as plain JSON. Rates are None without an earlier reading."""
    past = {} if before is None else {hook["name"]: _calls(hook) for hook in before.status["hooks"]}
    seconds = None if before is None else now.at - before.at
    return {
        "containment": now.status["containment"],
        "hooks": [_hook(hook, past.get(hook["name"], 0), seconds, memory) for hook in now.status["hooks"]],
    }


def _calls(hook: Mapping[str, Any]) -> int:
    return sum(stage["executions"] for stage in hook["stages"].values())


def _hook(hook: Mapping[str, Any], before: int, seconds: float | None, memory: Mapping[int, int]) -> dict[str, Any]:
    """Returns the figures of a hook. Its times are those of its slowest stage."""
    stages = [stage for stage in hook["stages"].values() if stage["executions"]]
    slowest = max(stages, key=lambda stage: stage["p99_ms"], default={"p50_ms": None, "p99_ms": None})
    calls = _calls(hook)
    # Fewer calls than before are those of a new hook with the same name.
    rate = None if seconds is None else round((calls - before if calls >= before else calls) / seconds, 3)
    return {
        "name": hook["name"],
        "state": hook["state"],
        "pid": hook["pid"],
        "calls": calls,
        "calls_per_second": rate,
        "p50_ms": slowest["p50_ms"],
        "p99_ms": slowest["p99_ms"],
        "denials": sum(stage["decisions"].get(action, 0) for stage in stages for action in _DENIALS),
        "failures": sum(sum(stage["failures"].values()) for stage in hook["stages"].values()),
        "dropped": hook["dropped_events"] + hook["dropped_lines"],
        "restarts": max(hook["starts"] - 1, 0),
        "memory_bytes": memory.get(hook["pid"]),
        "last_error": hook["last_error"],
    }


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
