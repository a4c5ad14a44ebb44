"""`picohook trace`: a record as a timeline, in text, as JSON or as a page."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ...cli import output, params as given
from ...cli.command import App, Json
from .reader import Record, RecordError
from .shown import Full, Html, items_of, shown

app = App()


@contextmanager
def opened(name: str) -> Iterator[Record]:
    """Open the record of this name, or standard input for `-`. Raises `typer.BadParameter` if it is damaged or no record."""
    descriptor = given.open_source(name)
    with os.fdopen(descriptor, "rb", closefd=descriptor > 0) as file:
        try:
            yield Record(file, given.shown_name(name))
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None


def warn_of_end(record: Record) -> None:
    """Warn if the end of the record is missing."""
    if not record.closed:
        output.warn(f"{record.name}: the end is missing: the host was killed, or is still running")


@app.command()
def trace(
    record: Annotated[
        str, typer.Argument(metavar="RECORD", help="A file that --record has written, or - for standard input.")
    ],
    html: Html = None,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show a record as a timeline.

    Shows the questions, the answer of each hook, the decisions, and how long each took.
    """
    with opened(record) as source:
        recorded = f"recorded {source.header['time']} by picohook {source.header['picohook']}"
        if html is None and not as_json:
            output.line(recorded, cut=True)
        with shown(recorded, html, full=full, as_json=as_json) as timeline:
            for item in items_of(source):
                timeline.add(item)
    warn_of_end(source)
