"""Prints for people and as JSON."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire.text import cut as shortened, escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rich.console import Console

    from ..errors import ConfigError
    from ..protocol.raw_line import RawLine

_SHOWN = 4000
"""The most bytes of a raw line that are shown."""


def data(value: Any) -> None:
    """Print a JSON value on one line of stdout, and flush. It is ASCII, so that no character acts on a terminal."""
    _write(json.dumps(value) + "\n")


def verbatim(text: str) -> None:
    """Print text without escaping it: it must not come from a hook."""
    _write(text + "\n")


def line(text: str = "", *, style: str = "", cut: bool = False) -> None:
    """Print one escaped line on stdout. `cut` cuts it at the width of the terminal."""
    if not _is_terminal():
        verbatim(escape(text).rstrip())
        return
    from rich.text import Text  # only for terminals

    show(Text(escape(text), style=style), cut=cut)


def many(count: int, noun: str) -> str:
    """Returns a number with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def pairs(rows: Iterable[tuple[str, str]], *, styles: Mapping[str, str] | None = None) -> None:
    """Print names and values as two columns. Names are dim, unless `styles` has a style for them."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(
            Text(f"  {escape(name)}", style=(styles or {}).get(name, "dim")), Text(escape(value), overflow="fold")
        )
    if grid.rows:
        show(grid)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> None:
    """Print a table, as wide as its cells. In a narrow terminal, all columns but those of `numbers` wrap."""
    cells = [[*map(escape, row)] for row in rows]
    if not _is_terminal() and all(map(str.isascii, chain(*cells))):  # rich knows how wide other characters are
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            padded = zip(columns, row, widths, strict=True)
            verbatim(
                "  ".join(f"{cell:{'>' if name in numbers else '<'}{width}}" for name, cell, width in padded).rstrip()
            )
        return
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        is_number = column in numbers
        made.add_column(column, overflow="fold", no_wrap=is_number, justify="right" if is_number else "left")
    for row in cells:
        made.add_row(*map(Text, row))
    show(made)


def show(what: Any, *, cut: bool = False) -> None:
    """Print an object that rich can render."""
    renderer = console()
    with renderer.capture() as rendered:
        renderer.print(what, no_wrap=cut, overflow="ellipsis" if cut else None)
    text = rendered.get()
    if renderer.color_system is None:
        text = "\n".join(row.rstrip() for row in text.split("\n"))
    _write(text)


def flush() -> None:
    """Write buffered text, such as help. Raises `PicohookError` if stdout cannot be written, as all functions here do."""
    _write("")


def _write(text: str) -> None:
    stream = sys.__stdout__  # sys.stdout is elsewhere while hooks run
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as failure:
        # Buffered text is dropped: otherwise it fails again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(failure, BrokenPipeError):
            from typer import Exit  # rarely needed

            # The reader has gone, and that is no error of anything else that is read or written.
            raise Exit(1) from None
        raise PicohookError(f"standard output cannot be written: {failure.strerror}") from None


def _is_terminal() -> bool:
    return sys.__stdout__ is not None and sys.__stdout__.isatty()


@cache
def console() -> Console:
    """The console for stdout. Only a terminal has colour and a width."""
    from rich.console import Console

    terminal = _is_terminal()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {"dumb", "unknown"}
    # Left alone, rich would colour a pipe under FORCE_COLOR, and write bold under NO_COLOR.
    return Console(
        file=sys.__stdout__,  # sys.stdout is elsewhere while hooks run
        color_system="auto" if colour else None,
        width=None if terminal else 1_000_000,
        markup=False,
        highlight=False,
        emoji=False,
    )


def warn(text: str) -> None:
    """Print a warning on stderr. It does not change the exit code."""
    _complain("Warning", text)


def note(text: str) -> None:
    """Print a line on stderr."""
    print(escape(text), file=sys.stderr, flush=True)


def show_line(line: RawLine) -> None:
    """Print a raw line on stderr."""
    text = shortened(line.shown, _SHOWN)
    note(text if text == line.shown else f"{text}… ({line.size} bytes)")


def error(text: str) -> None:
    """Print an error on stderr."""
    _complain("Error", text)


def problems(failure: ConfigError) -> None:
    """Print each problem of a configuration on its own line."""
    for problem in failure.problems:
        error(str(problem))


def _complain(kind: str, text: str) -> None:
    print(f"{kind}: {escape(text)}", file=sys.stderr, flush=True)
