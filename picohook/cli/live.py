"""Shared by live views: the terminal, its keys, and tables that fit its size."""

import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from ..wire.text import escape

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

NAME = 24
"""The most characters of a name for which other columns are left out."""
Row = Mapping[str, str]


def begin(*, plain: bool) -> None:
    """Let signals that end the program restore the terminal. Raises `typer.BadParameter` if a live view has none."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown", "", None}
    if not (plain or is_terminal):
        raise typer.BadParameter("a live view needs a terminal: use --once or --json")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Raised as an exception, so that the terminal is restored.
            signal.signal(number, lambda number, _: sys.exit(128 + number))


@contextlib.contextmanager
def keys() -> Iterator[int | None]:
    """Yields a descriptor that reads each key as it is typed, without echo; None without a terminal. Restores the terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        modes = termios.tcgetattr(descriptor)
        # ^Z is switched off, because the shell would get the screen and the modes of this view.
        modes[6][termios.VSUSP] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class Columns(NamedTuple):
    """The columns of a table. The first one has names, which may be wrapped."""

    names: Sequence[str]
    numbers: frozenset[str]
    """The columns that are aligned to the right."""
    left_out: Sequence[str]
    """The columns that a narrow terminal leaves out, in this order, to give names room."""

    def fitting(self, rows: Sequence[Row], width: int | None) -> list[str]:
        """Returns the columns that fit beside the names."""
        columns = list(self.names)
        if width is None:
            return columns
        widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows), 0) + 1 for name in columns}
        widths[columns[0]] = min(widths[columns[0]], NAME + 1)
        for name in self.left_out:
            if sum(widths[column] for column in columns) - 1 <= width:
                break
            columns.remove(name)
        return columns


def table(
    columns: Columns,
    rows: Sequence[Row],
    style: Callable[[str, Row], str],
    width: int | None = None,
    height: int | None = None,
) -> "Table | Group":
    """Returns a table of these rows, whose cells are by column. In a narrow terminal, columns are left out.

    If there are more rows than lines, the last line says how many rows are not shown.
    """
    from rich.console import Group  # not where the output is JSON
    from rich.table import Table
    from rich.text import Text

    hidden = 0 if height is None or len(rows) <= height else len(rows) - height + 1
    shown = columns.fitting(rows, width)
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column in shown:
        made.add_column(
            column, justify="right" if column in columns.numbers else "left", no_wrap=column != columns.names[0]
        )
    for row in rows[: len(rows) - hidden]:
        made.add_row(
            *(
                Text(escape(row.get(column, "")), style=style(column, row), no_wrap=True, overflow="ellipsis")
                for column in shown
            )
        )
    return Group(made, Text(f"and {hidden} more", style="dim")) if hidden else made
