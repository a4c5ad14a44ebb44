"""The items of a timeline: one for each chain, event and raw line. Text, JSON and pages show the same items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...cli import outcomes
from ...wire.text import cut
from .facts import editable, facts_of_answer
from .format import AnswerLine, CloseLine, WireLine
from .reader import Chain, ChainAbandoned, ChainEnded, EventEmitted, HookInShadow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...model.trail import TrailEntry
    from .reader import Entry, Record

_ABOUT = 120
"""The most bytes of a question that are shown in a line."""


@dataclass(slots=True)
class Row:
    """One hook's part in a chain."""

    hook: str
    action: str
    at: float | None = None
    seconds: float | None = None
    text: str = ""
    """Its reason, or why it failed."""
    changes: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    """What else it was asked and answered."""
    when: str = ""
    """In a comparison: `then` or `now`."""


@dataclass(slots=True)
class Item:
    """A chain with its hooks, an event, or a raw line."""

    name: str
    """The stage, the kind of event, or the direction of a raw line."""
    about: str = ""
    at: float | None = None
    number: int = 0
    rows: list[Row] = field(default_factory=list)
    verdict: str = ""
    why: str = ""
    seconds: float | None = None
    ended: float | None = None
    asked: Any = None
    """The whole question, or the payload of an event."""
    label: str = ""
    """In a comparison: what has changed."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """In a comparison: each fact that differs, with both values."""
    tool: str = ""


def items_of(record: Record) -> Iterator[Item]:
    """Yields the items of a record, each when it has ended, and at the end the chains that have not."""
    for entry in record:
        item = _item(entry)
        if item is not None:
            yield item
    for chain in record.open_chains:
        yield item_of(chain, "has no end", waiting="asked, and has not answered")


def _item(entry: Entry) -> Item | None:
    match entry:
        case ChainEnded(line, chain):
            rows = [Row(name, "not asked: its filter") for name in line.skipped]
            why = line.reason or line.feedback
            return item_of(chain, entry.facts["action"], ended=line.at, why=why, rows=rows)
        case ChainAbandoned(at, chain, why):
            return item_of(chain, "abandoned", ended=at, why=why, waiting="asked, and has not answered")
        case EventEmitted():
            told = f"→ {', '.join(entry.hooks)}" if entry.hooks else ""
            text = outcomes.shown(entry.payload) if entry.payload else ""
            return Item(entry.kind, joined(told, text), entry.at, asked=entry.payload or None)
        case WireLine():
            return Item("→" if entry.sent else "←", f"{entry.hook}  {entry.line}", entry.at)
        case HookInShadow(line, end):
            row = would_row(line, end.chain)
            return Item("in shadow", joined(row.hook, row.action), line.at, end.chain.number, [row])
        case CloseLine():
            return Item("the host ended", at=entry.at)
    return None


def item_of(
    chain: Chain,
    verdict: str,
    *,
    ended: float | None = None,
    why: str = "",
    rows: Iterable[Row] = (),
    waiting: str = "not waited for",
) -> Item:
    """Returns the item of a chain."""
    seconds = None if ended is None else ended - chain.at
    params = chain.asked_about
    return Item(
        chain.stage.name,
        joined(
            f"after a pause, with an answer for {chain.resumed.hook}" if chain.resumed.hook else "",
            about(chain.stage.name, params),
        ),
        chain.at,
        chain.number,
        [
            *rows_of(chain),
            *rows,
            *(would_row(line, chain) for line in chain.shadows),
            *(Row(name, waiting) for name in chain.waiting),
        ],
        verdict,
        why,
        seconds,
        ended,
        params,
        tool=str(params.get("tool", "")),
    )


def rows_of(chain: Chain, when: str = "") -> Iterator[Row]:
    """Yields the answers of a chain. A hook that saw another payload than the first one has it in its row."""
    sees = chain.asked_about
    for line in chain.answers:
        row = row_of(line, sees, approves=chain.stage.approves)
        row.when = when
        if sees is not chain.asked_about:
            row.more = {"question": sees, **row.more}
        yield row
        sees = sees if line.params is None else line.params


def row_of(line: AnswerLine, sees: Mapping[str, Any], *, approves: bool) -> Row:
    """Returns the row of an answer to a question with these params."""
    action = f"failed ({line.failed}): {line.action}"
    if line.failed is None:
        action = facts_of_answer(line, approves=approves)["action"]
    made = [] if line.params is None else [*outcomes.changes(editable(dict(sees)), editable(line.params))]
    retried = f"(asked again {line.retries} times)" if line.retries else ""
    text = joined(retried, line.error or line.reason or line.feedback)
    more = {"result": line.result, "notes": line.notes, "answer": line.answer}
    kept = {name: value for name, value in more.items() if value}
    return Row(line.hook, action, line.at, line.seconds, text, made, kept)


def would_row(line: AnswerLine, chain: Chain) -> Row:
    """Returns the row of a hook in shadow."""
    row = row_of(line, chain.asked_about, approves=chain.stage.approves)
    row.action = f"would {'have failed' if line.failed else row.action}"
    return row


def trail_row(entry: TrailEntry) -> Row:
    """Returns the row of a hook that was asked now."""
    action: str = "not asked: its filter" if entry.skipped else entry.action
    if entry.failure is not None:
        action = f"failed ({entry.failure}): {action}"
    seconds = None if entry.skipped else entry.duration
    return Row(entry.hook, action, None, seconds, entry.error or entry.reason, when="now")


def about(stage: str, params: Mapping[str, Any]) -> str:
    """Returns a short form of a question."""
    if "tool" in params:
        text = f"{params['tool']} {outcomes.shown(params.get('arguments', {}))}"
        if "result" in params:
            text = f"{params['tool']} → {_text(params['result'].get('for_llm', ''))}"
    elif stage in {"after_llm", "before_finish"}:
        text = _text(params.get("response", {}).get("content"))
    elif stage == "before_prompt":
        text = _text(params["prompt"])
    else:
        messages = params.get("messages", [])
        name = params.get("model") or params.get("scope") or ""
        last = _text(messages[-1].get("content")) if messages else ""
        count = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
        text = ", ".join(filter(None, (name, count, last)))
    short = cut(text, _ABOUT)
    return short if short == text else short + "…"


def _text(value: Any) -> str:
    return outcomes.shown(value) if value not in (None, "") else "-"


def joined(*parts: str) -> str:
    """Returns the parts that have text, with two blanks between them."""
    return "  ".join(part for part in parts if part.strip())
