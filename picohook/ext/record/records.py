"""Reads a record for `replay` and `trace`."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ...cli import output, params as given
from .reader import Record, RecordError


@contextmanager
def opened(name: str, *, checked: bool = False) -> Iterator[Record]:
    """Open the record of this name, or standard input for `-`. Raises `typer.BadParameter` if it is damaged or no record."""
    descriptor = given.open_source(name)
    with os.fdopen(descriptor, "rb", closefd=descriptor > 0) as file:
        try:
            yield Record(file, given.shown_name(name), checked=checked)
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None


def require_rereadable(name: str) -> None:
    """Raise `typer.BadParameter` for a pipe: a replay reads its record twice, the first time to check it."""
    if name == "-" or not stat.S_ISREG(os.stat(name).st_mode):
        raise typer.BadParameter(
            f"{given.shown_name(name)} can be read only once, and a replay reads a record twice: save it to a file first"
        )


def warn_of_end(record: Record, name: str) -> None:
    """Warn if the end of the record is missing."""
    if record.cut_off:
        output.warn(f"{given.shown_name(name)}: the last line is cut off, and is left out")
    if not record.closed:
        output.warn(f"{given.shown_name(name)}: the end is missing: the host was killed, or is still running")
