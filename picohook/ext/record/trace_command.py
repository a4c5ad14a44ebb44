"""`picohook trace`: a record as a timeline, in text, as JSON or as a page."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ...cli import output
from ...cli.command import App, Json
from ...wire import words
from ...wire.text import cut
from .format import WireLine
from .page import Full, Html, page
from .reader import Chain, ChainAbandoned, ChainEnded, Entry, EventEmitted, HookInShadow
from .records import opened, warn_of_end
from .timeline import Item, Row, items_of, joined

app = App()

_LONGEST = 200
"""Bytes of a row, if no terminal cuts it."""
_OWN = {"type", "chain", "at"}
_GOOD = {
    words.CONTINUE: "green",
    words.MODIFY: "green",
    "approved": "green",
    words.RESPOND: "cyan",
    "abandoned": "yellow",
    "has no end": "yellow",
}


@app.command()
def trace(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="A file that --record has written, or - for standard input.", show_default=False
        ),
    ],
    html: Html = None,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show a record as a timeline.

    Shows the questions, the answer of each hook, the decisions, and how long each took.
    """
    with opened(record) as source:
        recorded = f"recorded {source.header.time} by picohook {source.header.picohook}"
        if html is not None:
            with page(html, recorded, full=full) as made:
                for item in items_of(source):
                    made.add(item)
        elif as_json:
            for entry in source:
                _json(entry)
            for chain in source.open_chains:
                output.data(_chain(chain, {"ended": None}))
        else:
            output.line(recorded, cut=True)
            for item in items_of(source):
                show(item)
    warn_of_end(source, record)


def show(item: Item) -> None:
    """Print an item: the question, a line for each hook, and the verdict."""
    number = f"#{item.number}" if item.number else ""
    style = "bold" if item.verdict else "dim" if item.name in {"→", "←"} else ""
    name = f"{item.name} {item.about}" if item.name in {"→", "←"} else joined(item.name, item.about)
    _line(item.at, number, name, style=style)
    for row in item.rows:
        _line(row.at, number, f"  {row.hook:<14}  {answer(row)}")
    if item.verdict:
        seconds = "" if item.seconds is None else time(item.seconds)
        text = joined(f"= {item.verdict}", seconds, item.why)
        _line(item.ended, number, text, style=_GOOD.get(item.verdict, "red"))


def answer(row: Row) -> str:
    """Returns what a hook answered."""
    if row.seconds is None:
        return row.action
    return joined(f"{row.action:<9}", f"{time(row.seconds):>8}", row.text or "; ".join(row.changes))


def _line(at: float | None, number: str, text: str, *, style: str = "") -> None:
    short = cut(text, _LONGEST)
    when = "" if at is None else f"{at:.3f} s"
    output.line(f"{when:>11}  {number:<4} {short}{'' if short == text else '…'}", style=style, cut=True)


def time(seconds: float) -> str:
    """Returns a duration as text."""
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004


def _json(entry: Entry) -> None:
    match entry:
        case ChainEnded(line, chain):
            ended = line.model_dump(exclude={"type", "at", "chain", "skipped"}, exclude_defaults=True)
            output.data(
                _chain(chain, {"ended": line.at, **ended, "skipped": list(line.skipped), "payload": chain.params})
            )
        case ChainAbandoned(at, chain, why):
            output.data(_chain(chain, {"ended": at, "abandoned": why}))
        case HookInShadow(line, end):
            output.data(
                {
                    "at": line.at,
                    "chain": end.chain.number,
                    "would": line.model_dump(exclude=_OWN, exclude_defaults=True),
                }
            )
        case WireLine():
            output.data({"at": entry.at, "hook": entry.hook, "sent": entry.sent, "wire": entry.line})
        case EventEmitted():
            meta = {name: value for name, value in entry.meta.wire().items() if value}
            told = {"payload": entry.payload, "meta": meta, "hooks": list(entry.hooks)}
            output.data({"line": entry.line_number, "at": entry.at, "event": entry.kind, **told})


def _chain(chain: Chain, end: dict[str, Any]) -> dict[str, Any]:
    """Returns one chain with all its hooks, as JSON."""
    begin = {
        "line": chain.line_number,
        "at": chain.at,
        "chain": chain.number,
        "stage": chain.stage.name,
        "params": chain.asked_about,
    }
    return {**begin, "hooks": list(_hooks(chain)), **end}


def _hooks(chain: Chain) -> Iterator[dict[str, Any]]:
    for line in chain.answers:
        yield line.model_dump(exclude={"type", "chain"}, exclude_defaults=True)
    for shadow in chain.shadows:
        yield {"hook": shadow.hook, "would": shadow.model_dump(exclude={*_OWN, "hook"}, exclude_defaults=True)}
    for name, params in chain.waiting.items():
        yield {"hook": name, "action": None, "params": params}
