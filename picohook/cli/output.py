"""What the commands print, for people and for programs."""

from __future__ import annotations

import io
import json
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rich.console import Console

    from ..errors import ConfigError


def data(value: Any) -> None:
    """One JSON value on one line of stdout, at once. ASCII only: no byte of it can act on a terminal."""
    _write(json.dumps(value) + "\n")


def verbatim(text: str) -> None:
    """Text of our own making, as it is."""
    _write(text + "\n")


def line(text: str = "", *, style: str = "", cut: bool = False) -> None:
    """One line of stdout for people; with `cut`, no longer than a terminal is wide."""
    from rich.text import Text  # noqa: PLC0415 - not where the output is JSON

    show(Text(escape(text), style=style), cut=cut)


def pairs(rows: Iterable[tuple[str, str]], *, styles: Mapping[str, str] | None = None) -> None:
    """Names and what they stand for, below each other; `styles` has those of names that are not dim."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(
            Text(f"  {escape(name)}", style=(styles or {}).get(name, "dim")), Text(escape(value), overflow="fold")
        )
    if grid.rows:
        show(grid)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> None:
    """A table for people: as wide as it needs to be where no terminal limits it, and there only `numbers` keep their width."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        is_number = column in numbers
        made.add_column(column, overflow="fold", no_wrap=is_number, justify="right" if is_number else "left")
    for row in rows:
        made.add_row(*(Text(escape(cell)) for cell in row))
    show(made)


def show(what: Any, *, cut: bool = False) -> None:
    """Whatever rich can render."""
    renderer = _console()
    renderer.file = rendered = io.StringIO()
    renderer.print(what, no_wrap=cut, overflow="ellipsis" if cut else None)
    text = rendered.getvalue()
    if renderer.color_system is None:
        text = "\n".join(row.rstrip() for row in text.split("\n"))
    _write(text)


def flush() -> None:
    """Write what is left over, of help for example. Raises `PicohookError` as all of these do, where it cannot be."""
    _write("")


def _write(text: str) -> None:
    stream = sys.__stdout__  # sys.stdout is elsewhere while hooks run
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as failure:
        # What is still buffered goes nowhere, instead of failing once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(failure, BrokenPipeError):
            raise  # typer ends quietly on this one
        raise PicohookError(f"standard output cannot be written: {failure.strerror}") from None


@cache
def _console() -> Console:
    return console()


def console() -> Console:
    """One for stdout, as it is: with colour and a width if it is a terminal."""
    from rich.console import Console  # noqa: PLC0415

    stream = sys.__stdout__  # sys.stdout is elsewhere while hooks run
    terminal = stream is not None and stream.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {"dumb", "unknown"}
    # Told, because rich by itself would colour a pipe under FORCE_COLOR, and write bold under NO_COLOR.
    return Console(
        file=stream,
        color_system="auto" if colour else None,
        width=None if terminal else 1_000_000,
        markup=False,
        highlight=False,
        emoji=False,
    )


def warn(text: str) -> None:
    """One line on stderr that does not change how the command ends."""
    _complain("Warning", text)


def note(text: str) -> None:
    """One line on stderr, of what goes on."""
    print(escape(text), file=sys.stderr, flush=True)


def error(text: str) -> None:
    """One line on stderr, for what went wrong."""
    _complain("Error", text)


def problems(failure: ConfigError) -> None:
    """Each mistake on a line of its own."""
    for problem in failure.problems:
        error(str(problem))


def _complain(kind: str, text: str) -> None:
    print(f"{kind}: {escape(text)}", file=sys.stderr, flush=True)
