"""`picohook trace`: a record as a timeline, in text, as JSON or as a page."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ...cli import output, params as given
from ...cli.command import App, Json
from ...wire import words
from ...wire.text import cut
from .format import Line
from .page import Full, Html, page
from .reader import Chain, Record, RecordError
from .timeline import Item, Row, items_of, joined

app = App()

_LONGEST = 200
"""Bytes of a row, if no terminal cuts it."""
_OWN = ("type", "chain", "at")
_GOOD = {
    words.CONTINUE: "green",
    words.MODIFY: "green",
    "approved": "green",
    words.RESPOND: "cyan",
    "abandoned": "yellow",
    "has no end": "yellow",
}


@contextmanager
def opened(name: str, *, checked: bool = False) -> Iterator[Record]:
    """Open the record of this name, or standard input for `-`. Raises `typer.BadParameter` if it is damaged or no record."""
    descriptor = given.open_source(name)
    with os.fdopen(descriptor, "rb", closefd=descriptor > 0) as file:
        try:
            yield Record(file, given.shown_name(name), checked=checked)
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None


def warn_of_end(record: Record) -> None:
    """Warn if the end of the record is missing."""
    if record.cut_off:
        output.warn(f"{record.name}: the last line is cut off, and is left out")
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
        if html is not None:
            with page(html, recorded, full=full) as made:
                for item in items_of(source):
                    made.add(item)
        elif as_json:
            for line, chain in source:
                if shown := _json(line, chain, source.number):
                    output.data(shown)
            for chain in source.open_chains:
                output.data({**_chain(chain), "ended": None})
        else:
            output.line(recorded, cut=True)
            for item in items_of(source):
                _show(item)
    warn_of_end(source)


def _show(item: Item) -> None:
    """Print an item: the question, a line for each hook, and the verdict."""
    number = f"#{item.number}" if item.number else ""
    is_raw = item.name in {"→", "←"}
    name = f"{item.name} {item.about}" if is_raw else joined(item.name, item.about)
    _line(item.at, number, name, style="bold" if item.verdict else "dim" if is_raw else "")
    for row in item.rows:
        _line(row.at, number, f"  {row.hook:<14}  {answer(row)}")
    if item.verdict:
        seconds = "" if item.seconds is None else _time(item.seconds)
        text = joined(f"= {item.verdict}", seconds, item.why)
        _line(item.ended, number, text, style=_GOOD.get(item.verdict, "red"))


def answer(row: Row) -> str:
    """Returns what a hook answered."""
    if row.seconds is None:
        return row.action
    return joined(f"{row.action:<9}", f"{_time(row.seconds):>8}", row.text or "; ".join(row.changes))


def _line(at: float | None, number: str, text: str, *, style: str = "") -> None:
    short = cut(text, _LONGEST)
    when = "" if at is None else f"{at:.3f} s"
    output.line(f"{when:>11}  {number:<4} {short}{'' if short == text else '…'}", style=style, cut=True)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004


def _json(line: Line, chain: Chain | None, number: int) -> dict[str, Any] | None:
    """Returns what a line has ended, as JSON."""
    at = line["at"]
    match line["type"]:
        case "end" if chain is not None:
            return {**_chain(chain), "ended": at, "skipped": [], **_without(line, *_OWN), "payload": chain.params}
        case "abandoned" if chain is not None:
            return {**_chain(chain), "ended": at, "abandoned": line["why"]}
        case "would" if chain is not None and chain.end is not None:
            return {"at": at, "chain": chain.number, "would": _without(line, *_OWN)}
        case "wire":
            return {"at": at, "hook": line["hook"], "sent": line["sent"], "wire": line["line"]}
        case "event":
            return {"line": number, "meta": {}, "hooks": [], **_without(line, "type")}
    return None


def _chain(chain: Chain) -> dict[str, Any]:
    """Returns a chain with all its hooks, as JSON."""
    hooks = [_without(line, "type", "chain") for line in chain.answers]
    hooks += ({"hook": shadow["hook"], "would": _without(shadow, *_OWN, "hook")} for shadow in chain.shadows)
    hooks += ({"hook": name, "action": None, "params": params} for name, params in chain.waiting.items())
    begin = {"line": chain.line_number, "at": chain.at, "chain": chain.number, "stage": chain.stage.name}
    return {**begin, "params": chain.asked_about, "hooks": hooks}


def _without(line: Line, *names: str) -> Line:
    return {name: value for name, value in line.items() if name not in names}
