"""Counts the decisions that a replay compares, and shows those that changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from ...cli import outcomes, output
from ..history.redact import redacted
from .confined import changed_since
from .replay import NEWLY_ALLOWED, NEWLY_DENIED, OTHERWISE, Comparison, Replay
from .timeline import Item, about, rows_of, trail_row, would_row
from .trace_command import answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .page import Page

_TOO_MANY_FALSE = 3
_SHOWN = {"hook", "action", "failed", "reason", "feedback", "notes", "result", "seconds"}


@dataclass
class Tally:
    """Counts the decisions that were compared, and shows those that changed."""

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
    succeeded: int = 0
    unanswered: int = 0

    def take(self, one: Comparison, start: float) -> None:
        """Count a decision, and show it if it changed. `start` is the time of the record's beginning."""
        self.compared += 1
        self.failed += one.has_failed
        differing = [*one.differences(self.ignored)]
        if not differing or (one.then.agent and differing == ["reason"]):  # the agent words a denial itself
            return
        state = changed_since(one.params, start + one.then.at)
        is_false = one.kind == NEWLY_DENIED and one.succeeded is True
        self.kinds[one.kind] += 1
        self.stateful += bool(state)
        self.false += is_false and not state
        remarks = [
            *(["false rejection: the call was made then, and succeeded"] if is_false else []),
            *([f"may depend on the machine: {state}"] if state else []),
        ]
        if self.page is not None:
            self.page.add(_item(one, differing, remarks))
        elif self.as_json:
            _print_json(one, differing, {"false_rejection": is_false, "state": state})
        else:
            _show(_item(one, differing, remarks))

    def finish(self, replay: Replay) -> None:
        """Take over the numbers of the replay, and write them to the page."""
        self.succeeded, self.unanswered = replay.succeeded, replay.unanswered
        if self.page is not None:
            self.page.notes = {"How": "; ".join(self.notes), "Result": self.text}

    @property
    def changed(self) -> int:
        """The number of decisions that changed."""
        return self.kinds.total()

    @property
    def text(self) -> str:
        """All numbers in words."""
        parts = [f"{self.compared} decision{'' if self.compared == 1 else 's'}, {self.changed} changed"]
        if self.changed:
            false = f" ({_many(self.false, 'false rejection')} of {_many(self.succeeded, 'call')} that succeeded)"
            kinds = (NEWLY_DENIED, NEWLY_ALLOWED, OTHERWISE)
            parts = [f"{parts[0]}: " + ", ".join(f"{self.kinds[kind]} {kind}" for kind in kinds if self.kinds[kind])]
            parts += [false] if self.succeeded and self.kinds[NEWLY_DENIED] else []
        extra = {
            "of the changed may depend on files or git": self.stateful,
            "with a hook that failed": self.failed,
            "without an answer in the record": self.unanswered,
        }
        return "".join(parts) + "".join(f", and {count} {what}" for what, count in extra.items() if count)

    def conclude(self, max_false: float | None, *, any_change: bool) -> None:
        """Print the numbers. Raises `typer.Exit` if they are not good."""
        if self.as_json:
            counts = {kind.replace(" ", "_"): self.kinds[kind] for kind in (NEWLY_DENIED, NEWLY_ALLOWED, OTHERWISE)}
            more = {"false_rejections": self.false, "succeeded": self.succeeded, "stateful": self.stateful}
            numbers = {"decisions": self.compared, "changed": self.changed, "unanswered": self.unanswered}
            output.data({**numbers, **counts, **more, "failed": self.failed})
        else:
            output.line(self.text, style="bold red" if self.changed else "bold green")
        if not self.compared:
            output.error("the record has no decision to compare")
        if self.failed and not any_change:
            output.error("a hook failed, so this does not show what it would decide")
        if self.kinds[NEWLY_ALLOWED] or self.failed or not self.compared or (any_change and self.changed):
            raise typer.Exit(1)
        if max_false is None:
            return
        if not self.succeeded:
            output.error("which calls succeeded is not known, so --max-false cannot be held: record after_tool, too")
        if not self.succeeded or self.false > max_false * self.succeeded:
            raise typer.Exit(_TOO_MANY_FALSE)


def _item(one: Comparison, differing: list[str], remarks: list[str]) -> Item:
    """Returns a changed decision as an item: the answers then and now, and both values of each fact that differs."""
    rows = [row for row in rows_of(one.then, "then") if one.hook in {"", row.hook} or one.line is not None]
    if one.line is not None:
        rows.append(replace(would_row(one.line, one.then), when="now"))
    rows += [trail_row(entry) for entry in one.trail]
    facts = [*_facts(one, differing), *(("note", remark) for remark in remarks)]
    now, why = one.replayed["action"], one.replayed.get("reason", "")
    item = Item(one.stage.name, about(one.stage.name, one.params), one.then.at, one.line_number, rows, now, why)
    item.asked, item.label, item.facts, item.tool = one.params, one.kind, facts, str(one.params.get("tool", ""))
    return item


def _facts(one: Comparison, differing: list[str]) -> Iterator[tuple[str, str]]:
    for fact in differing:
        was, now = one.payloads() if fact == "payload" else (one.recorded.get(fact), one.replayed.get(fact))
        if isinstance(was, dict) and isinstance(now, dict):
            for change in outcomes.changes(was, now):
                yield fact, change
        else:
            yield fact, f"{_said(was)} → {_said(now)}"
    yield from (("error", f"{error} ({name})") for name, error in one.errors.items())


def _said(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else outcomes.shown(value)


def _show(item: Item) -> None:
    output.line(redacted(f"{item.label}: line {item.number}: {item.name}: {item.about}"), style="bold red")
    answers = [(row.when, f"{row.hook}: {answer(row)}") for row in item.rows]
    output.pairs((name, redacted(text)) for name, text in (*answers, *item.facts))
    output.line()


def _print_json(one: Comparison, differing: list[str], more: dict[str, Any]) -> None:
    changed = {
        fact: dict(zip(("recorded", "replayed"), one.payloads(), strict=True))
        if fact == "payload"
        else {"recorded": one.recorded.get(fact), "replayed": one.replayed.get(fact)}
        for fact in differing
    }
    shown = {
        "line": one.line_number,
        "kind": one.kind,
        "stage": one.stage.name,
        "params": one.params,
        "changed": changed,
    }
    answers = (line.model_dump(include=_SHOWN, exclude_defaults=True) for line in one.then.answers)
    shown["then"] = [line for line in answers if one.hook in {"", line["hook"]}]
    shown["now"] = [entry.wire() for entry in one.trail]
    if one.errors:
        shown["errors"] = one.errors
    output.data(redacted({**shown, **({"hook": one.hook} if one.hook else {}), **more}))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
