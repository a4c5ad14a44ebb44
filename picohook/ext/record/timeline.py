"""The items of a timeline: one for each chain, event and raw line. Text, JSON and pages show the same items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...cli import outcomes, output
from ...wire.text import cut
from .facts import editable, end_with, word_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...model.trail import TrailEntry
    from .format import Line
    from .reader import Chain, Record

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
    ended: float | None = None
    asked: Any = None
    """The whole question, or the payload of an event."""
    label: str = ""
    """In a comparison: what has changed."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """In a comparison: each fact that differs, with both values."""

    @property
    def seconds(self) -> float | None:
        """How long the chain took."""
        return None if self.ended is None or self.at is None else self.ended - self.at


def items_of(record: Record) -> Iterator[Item]:
    """Yields the items of a record, each when it has ended, and at the end the chains that have not."""
    for line, chain in record:
        match line["type"]:
            case "end" | "abandoned" if chain is not None:
                yield item_of(chain, line["at"])
            case "event":
                told = f"→ {', '.join(line['hooks'])}" if line.get("hooks") else ""
                text = outcomes.shown(line["payload"]) if line["payload"] else ""
                yield Item(line["event"], joined(told, text), line["at"], asked=line["payload"] or None)
            case "wire":
                yield Item("→" if line["sent"] else "←", f"{line['hook']}  {line['line']}", line["at"])
            case "would" if chain is not None and chain.end is not None:
                row = row_of(line, chain)
                yield Item("in shadow", joined(row.hook, row.action), line["at"], chain.number, [row])
            case "close":
                yield Item("the host ended", at=line["at"])
    for chain in record.open_chains:
        yield item_of(chain)


def item_of(chain: Chain, ended: float | None = None) -> Item:
    """Returns the item of a chain, as far as it was read."""
    rows, verdict, why, waiting = [*rows_of(chain)], "has no end", chain.abandoned, "asked, and has not answered"
    if chain.end is not None:
        rows += [Row(name, "not asked: its filter") for name in chain.end.get("skipped", ())]
        verdict, waiting = word_of(chain.end), "not waited for"
        why = chain.end.get("reason") or chain.end.get("feedback", "")
    elif chain.abandoned:
        verdict = "abandoned"
    rows += [row_of(line, chain) for line in chain.shadows] + [Row(name, waiting) for name in chain.waiting]
    paused = f"after a pause, with an answer for {chain.resumed.hook}" if chain.resumed and chain.resumed.hook else ""
    text = joined(paused, about(chain))
    return Item(chain.stage.name, text, chain.at, chain.number, rows, verdict, why, ended, chain.asked_about)


def rows_of(chain: Chain) -> Iterator[Row]:
    """Yields the answers of a chain. A hook that saw another payload than the first one has it in its row."""
    sees = chain.asked_about
    for line in chain.answers:
        row = row_of(line, chain, sees)
        if sees is not chain.asked_about:
            row.more = {"question": sees, **row.more}
        yield row
        sees = line.get("params", sees)


def row_of(line: Line, chain: Chain, sees: dict[str, Any] | None = None) -> Row:
    """Returns the row of an answer to a question with these params."""
    failed, action = line.get("failed"), word_of(end_with(line, approves=chain.stage.approves))
    if line["type"] == "would":
        action = f"would {'have failed' if failed else action}"
    elif failed:
        action = f"failed ({failed}): {line['action']}"
    made = []
    if "params" in line:
        made = [*outcomes.changes(editable(sees or chain.asked_about), editable(line["params"]))]
    retried = f"(asked again {line['retries']} times)" if "retries" in line else ""
    text = joined(retried, line.get("error") or line.get("reason") or line.get("feedback", ""))
    more: dict[str, Any] = {name: line[name] for name in ("result", "notes", "answer") if name in line}
    return Row(line["hook"], action, line["at"], line["seconds"], text, made, more)


def trail_row(entry: TrailEntry) -> Row:
    """Returns the row of a hook that was asked now."""
    action: str = "not asked: its filter" if entry.skipped else f"would {entry.would}" if entry.would else entry.action
    if entry.failure is not None and not entry.would:
        action = f"failed ({entry.failure}): {action}"
    seconds = None if entry.skipped else entry.duration
    return Row(entry.hook, action, None, seconds, entry.error or entry.reason, when="now")


def about(chain: Chain) -> str:
    """Returns a short form of a question."""
    stage, params = chain.stage.name, chain.asked_about
    if "result" in params:
        text = f"{params['tool']} → {_text(params['result'].get('for_llm', ''))}"
    elif "tool" in params:
        text = f"{params['tool']} {outcomes.shown(params.get('arguments', {}))}"
    elif stage in {"after_llm", "before_finish"}:
        text = _text(params.get("response", {}).get("content"))
    elif stage == "before_prompt":
        text = _text(params["prompt"])
    else:
        messages = params.get("messages", [])
        name = params.get("model") or params.get("scope") or ""
        last = _text(messages[-1].get("content")) if messages else ""
        text = ", ".join(filter(None, (name, output.many(len(messages), "message"), last)))
    short = cut(text, _ABOUT)
    return short if short == text else short + "…"


def _text(value: Any) -> str:
    return outcomes.shown(value) if value not in (None, "") else "-"


def joined(*parts: str) -> str:
    """Returns the parts that have text, with two blanks between them."""
    return "  ".join(part for part in parts if part.strip())
