"""`picohook top`: how the hooks of a running host do, as it changes."""

import contextlib
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from ..wire.text import escape
from . import output
from .client import PATIENCE, Socket, opened, receive, send
from .figures import Look, figures, memory
from .source import Json
from .usage import seconds

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {"ready": "green", "failed": "bold red"}
_NUMBERS = ("calls/s", "p50 ms", "p99 ms", "failed", "drops", "restarts", "memory")


def top(
    control: Socket,
    once: Annotated[bool, typer.Option("--once", help="Look for one interval, print that, and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.1), help="From one look to the next.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Show how the hooks of a running host do, live.

    Their state, calls, times, failures, drops, restarts and memory: a view in the terminal, which q ends; with --once a table,
    with --json a line every interval. Times are those of all calls since the host began; what it dropped are events and
    lines; memory is that of all processes of a hook.
    """
    if not (once or as_json or _is_terminal()):
        raise typer.BadParameter("a live view needs a terminal: take --once or --json")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # and the terminal is as it was
    with opened(control, PATIENCE) as connection:
        try:
            if once or as_json:
                _print(_looks(connection, interval, None), once=once, as_json=as_json)
            else:
                _show(connection, interval, str(control))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown", "", None}


def _print(looks: Iterator[dict[str, Any]], *, once: bool, as_json: bool) -> None:
    next(looks)  # it has no rates yet
    for shown in looks:
        try:
            if as_json:
                output.data(shown)
            else:
                output.show(_table(shown))
        except BrokenPipeError:  # whoever read it is gone: no trouble of the socket's
            raise typer.Exit(1) from None
        if once:
            return


def _show(connection: socket.socket, interval: float, name: str) -> None:
    from rich.console import Group  # noqa: PLC0415 - not where the output is JSON
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with _keys() as keys, Live(console=output.console(), screen=True, auto_refresh=False) as live:
        for shown in _looks(connection, interval, keys):
            title = f"{name}   containment: {shown['containment']}   every {interval:g} s   q quits"
            live.update(Group(Text(escape(title), style="bold", no_wrap=True), Text(), _table(shown)), refresh=True)


def _looks(connection: socket.socket, interval: float, keys: int | None) -> Iterator[dict[str, Any]]:
    """A look at the host every interval, until q is typed. One that does not answer holds up no key."""
    before = None
    with connection.makefile("rwb") as file:
        lines = cast(IO[bytes], file)
        while True:
            began = time.monotonic()
            send(lines, "status")
            if _typed_q(keys, connection, PATIENCE):
                return
            now = Look(receive(lines), time.monotonic())
            yield figures(before, now, memory({hook["pid"] for hook in now.status["hooks"]}))
            before = now
            if _typed_q(keys, None, max(began + interval - time.monotonic(), 0)):
                return


def _typed_q(keys: int | None, connection: socket.socket | None, patience: float) -> bool:
    """Wait for the host to answer, or, without one, for so long; whether q was typed before. No answer is a `TimeoutError`."""
    deadline = time.monotonic() + patience
    watched = [one for one in (keys, connection) if one is not None]
    while True:
        ready = select.select(watched, (), (), max(deadline - time.monotonic(), 0))[0]
        if keys in ready:
            typed = os.read(keys, 1024)
            if b"q" in typed.lower():
                return True
            if not typed:
                watched.remove(keys)  # nobody is there to type
        if connection in ready:
            return False
        if not ready:
            if connection is not None:
                raise TimeoutError
            return False


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Where keys are read from, each as it is typed and unseen; None without a terminal. Afterwards it is as it was."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        modes = termios.tcgetattr(descriptor)
        # Stopped by ^Z, this would leave its screen and its modes to the shell.
        modes[6][termios.VSUSP] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _table(shown: dict[str, Any]) -> "Table":
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def named(text: str, style: str = "") -> Text:
        return Text(escape(text), style=style, no_wrap=True, overflow="ellipsis")

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("hook")  # where it is too narrow for all, names are cut before numbers are
    for column in ("state", "pid", *_NUMBERS):
        table.add_column(column, no_wrap=True, justify="right" if column in _NUMBERS else "left")
    for hook in shown["hooks"]:
        stages = hook["stages"]
        alone = next(iter(stages.values())) if len(stages) == 1 else {"p50_ms": None, "p99_ms": None}
        state = Text(escape(hook["state"]), style=_STYLES.get(hook["state"], "bold yellow"))
        cells = [_number(hook["calls_per_second"]), *_times(alone), *map(str, _counts(hook)), _size(hook)]
        table.add_row(named(hook["name"]), state, str(hook["pid"] or "-"), *cells)
        for name, stage in stages.items() if len(stages) > 1 else ():
            cells = [_number(stage["calls_per_second"]), *_times(stage), str(stage["failures"])]
            table.add_row(named(f"  {name}", "dim"), "", "", *cells)
    return table


def _counts(hook: dict[str, Any]) -> tuple[int, int, int]:
    return hook["failures"], hook["dropped"], hook["restarts"]


def _times(stage: dict[str, Any]) -> tuple[str, str]:
    return _number(stage["p50_ms"]), _number(stage["p99_ms"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _size(hook: dict[str, Any]) -> str:
    size = hook["memory_bytes"]
    return "-" if size is None else f"{size / 1e6:.1f}M"
