"""Counts the decisions that a replay compares, and shows those that changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from ...cli import outcomes, output
from ..history.redact import redacted
from .confined import changed_since
from .replay import KINDS, NEWLY_ALLOWED, NEWLY_DENIED, Comparison, Replay
from .timeline import Item, about, rows_of, trail_row
from .trace_command import answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .page import Page

_TOO_MANY_FALSE = 3
_SHOWN = ("hook", "action", "seconds", "failed", "reason", "feedback", "notes", "result")


@dataclass
class Tally:
    """Counts the decisions that were compared, and shows those that changed."""

    replay: Replay
    ignored: list[str]
    as_json: bool
    notes: list[str] = field(default_factory=list)
    """How hooks were asked."""
    page: Page | None = None
    compared: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    false: int = 0
    """Newly denied calls that were made then and succeeded, and that no other state of the machine may explain."""
    stateful: int = 0
    """Changed decisions that another state of the machine may explain."""
    failed: int = 0
    """Decisions in which a hook failed now."""

    def take(self, one: Comparison, start: float) -> None:
        """Count a decision, and show it if it changed. `start` is the time of the record's beginning."""
        self.compared += 1
        self.failed += one.has_failed
        differing = [*one.differences(self.ignored)]
        if not differing or (one.then.agent and differing == ["reason"]):  # the agent words a denial itself
            return
        state = changed_since(one.then.asked_about, start + one.then.at)
        is_false = one.kind == NEWLY_DENIED and one.succeeded is True
        self.kinds[one.kind] += 1
        self.stateful += bool(state)
        self.false += is_false and not state
        if self.as_json and self.page is None:
            output.data(redacted({**_json(one, differing), "false_rejection": is_false, "state": state}))
            return
        item = _item(one, differing)
        if is_false:
            item.facts.append(("note", "false rejection: the call was made then, and succeeded"))
        if state:
            item.facts.append(("note", f"may depend on the machine: {state}"))
        if self.page is not None:
            self.page.add(item)
        else:
            _show(item)

    @property
    def text(self) -> str:
        """All numbers in words."""
        changed = ", ".join(f"{self.kinds[kind]} {kind}" for kind in KINDS if self.kinds[kind])
        text = f"{output.many(self.compared, 'decision')}, {self.kinds.total()} changed{changed and f': {changed}'}"
        if self.replay.succeeded and self.kinds[NEWLY_DENIED]:
            calls = output.many(self.replay.succeeded, "call")
            text += f" ({output.many(self.false, 'false rejection')} of {calls} that succeeded)"
        extra = {
            "of the changed may depend on files or git": self.stateful,
            "with a hook that failed": self.failed,
            "without an answer in the record": self.replay.unanswered,
        }
        return text + "".join(f", and {count} {what}" for what, count in extra.items() if count)

    def conclude(self, max_false: float | None, *, any_change: bool) -> None:
        """Print the numbers. Raises `typer.Exit` if they are not good."""
        changed, succeeded = self.kinds.total(), self.replay.succeeded
        if self.as_json:
            counts = {kind.replace(" ", "_"): self.kinds[kind] for kind in KINDS}
            more = {"false_rejections": self.false, "succeeded": succeeded, "stateful": self.stateful}
            numbers = {"decisions": self.compared, "changed": changed, "unanswered": self.replay.unanswered}
            output.data({**numbers, **counts, **more, "failed": self.failed})
        else:
            output.line(self.text, style="bold red" if changed else "bold green")
        if not self.compared:
            output.error("the record has no decision to compare")
        if self.failed and not any_change:
            output.error("a hook failed, so this does not show what it would decide")
        if self.kinds[NEWLY_ALLOWED] or self.failed or not self.compared or (any_change and changed):
            raise typer.Exit(1)
        if max_false is not None and not succeeded:
            output.error("which calls succeeded is not known, so --max-false cannot be held: record after_tool, too")
        if max_false is not None and (not succeeded or self.false > max_false * succeeded):
            raise typer.Exit(_TOO_MANY_FALSE)


def _item(one: Comparison, differing: list[str]) -> Item:
    """Returns a changed decision as an item: the answers then and now, and both values of each fact that differs."""
    then, rows = one.then, [*rows_of(one.then)]
    for row in rows:
        row.when = "then"
    rows += map(trail_row, one.now.trail)
    facts = [(fact, text) for fact in differing for text in _difference(*one.values(fact))]
    facts += (("error", f"{error} ({name})") for name, error in one.errors.items())
    verdict, why = one.replayed["action"], one.replayed.get("reason", "")
    item = Item(then.stage.name, about(then), then.at, then.line_number, rows, verdict, why, asked=then.asked_about)
    item.label, item.facts = one.kind, facts
    return item


def _difference(was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        yield from outcomes.changes(was, now)
    else:
        texts = ("-" if one is None else one if isinstance(one, str) else outcomes.shown(one) for one in (was, now))
        yield " → ".join(texts)


def _show(item: Item) -> None:
    output.line(redacted(f"{item.label}: line {item.number}: {item.name}: {item.about}"), style="bold red")
    answers = [(row.when, f"{row.hook}: {answer(row)}") for row in item.rows]
    output.pairs((name, redacted(text)) for name, text in (*answers, *item.facts))
    output.line()


def _json(one: Comparison, differing: list[str]) -> dict[str, Any]:
    then = one.then
    return {
        "line": then.line_number,
        "kind": one.kind,
        "stage": then.stage.name,
        "params": then.asked_about,
        "changed": {fact: dict(zip(("recorded", "replayed"), one.values(fact), strict=True)) for fact in differing},
        "then": [{name: line[name] for name in _SHOWN if name in line} for line in then.answers],
        "now": [entry.wire() for entry in one.now.trail],
        **({"errors": one.errors} if one.errors else {}),
        **({"hook": one.hook} if one.hook else {}),
    }
