"""`picohook trace`: a record as a timeline."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ...cli import outcomes, output
from ...cli.command import App, Json
from ...wire import words
from ...wire.text import cut
from .facts import editable
from .format import AnswerLine, CloseLine, HookLine, WireLine
from .reader import Chain, ChainAbandoned, ChainEnded, Entry, EventEmitted, HookAnswered, HookAsked
from .records import about, opened, warn_of_end

app = App()

_LONGEST = 200
"""Bytes of a row, if no terminal cuts it."""
_GOOD = {words.CONTINUE: "green", words.MODIFY: "green", "approved": "green", words.RESPOND: "cyan"}


@app.command()
def trace(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="A file that --record has written, or - for standard input.", show_default=False
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show a record as a timeline.

    Shows the questions, the answer of each hook, the decisions, and how long each took.
    """
    take = _json if as_json else _people
    with opened(record) as source:
        if not as_json:
            output.line(f"recorded {source.header.time} by picohook {source.header.picohook}", cut=True)
        for entry in source:
            take(entry)
    for chain in source.open_chains:
        if as_json:
            output.data(_chain(chain, {"ended": None}))
        else:
            _unanswered(chain)
            _row(None, chain, "= has no end", style="yellow")
    warn_of_end(source, record)


def _row(at: float | None, chain: Chain | None, text: str, *, style: str = "") -> None:
    short = cut(text, _LONGEST)
    number = "" if chain is None else f"#{chain.number}"
    when = "" if at is None else f"{at:.3f} s"
    output.line(f"{when:>11}  {number:<4} {short}{'' if short == text else '…'}", style=style, cut=True)


def _people(entry: Entry) -> None:
    match entry:
        case Chain():
            again = f"after a pause, with an answer for {entry.resumed.hook}" if entry.resumed.hook else ""
            _row(entry.at, entry, _joined(entry.stage.name, again, about(entry.stage, entry.asked_about)), style="bold")
        case HookAnswered(line, chain):
            _answer(line, chain, entry)
        case ChainEnded(line, chain):
            for name in line.skipped:
                _hook(None, chain, name, "not asked: its filter")
            _unanswered(chain, "not waited for")
            verdict = entry.facts["action"]
            what = _joined(f"= {verdict}", _time(line.at - chain.at), line.reason or line.feedback)
            _row(line.at, chain, what, style=_GOOD.get(verdict, "red"))
        case ChainAbandoned(at, chain, why):
            _unanswered(chain)
            _row(at, chain, _joined("= abandoned", _time(at - chain.at), why), style="yellow")
        case EventEmitted():
            told = f"→ {', '.join(entry.hooks)}" if entry.hooks else ""
            _row(entry.at, None, _joined(entry.kind, told, outcomes.shown(entry.payload) if entry.payload else ""))
        case WireLine():
            _row(entry.at, None, f"{'→' if entry.sent else '←'} {entry.hook}  {entry.line}", style="dim")
        case CloseLine():
            _row(entry.at, None, "the host ended")
        case HookLine() | HookAsked():
            pass


def _answer(line: AnswerLine, chain: Chain, entry: HookAnswered) -> None:
    action = entry.facts["action"] if line.failed is None else f"failed ({line.failed}): {line.action}"
    made = [] if line.params is None else outcomes.changes(editable(entry.before), editable(line.params))
    what = line.error or line.reason or line.feedback or "; ".join(made)
    retried = f"(asked again {line.retries} times)" if line.retries else ""
    _hook(line.at, chain, line.hook, _joined(f"{action:<9}", f"{_time(line.seconds):>8}", retried, what))


def _hook(at: float | None, chain: Chain, name: str, text: str) -> None:
    _row(at, chain, f"  {name:<14}  {text}")


def _unanswered(chain: Chain, why: str = "asked, and has not answered") -> None:
    for name in chain.waiting:
        _hook(None, chain, name, why)


def _joined(*parts: str) -> str:
    return "  ".join(part for part in parts if part.strip())


def _time(seconds: float) -> str:
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
    for name, params in chain.waiting.items():
        yield {"hook": name, "action": None, "params": params}
