"""Shows an outcome: the decision, its changes, and the answer of each hook."""

import json
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from ..config.problems import KeyPath, dotted
from ..model.decisions import Outcome
from ..model.payloads import Payload
from ..model.trail import TrailEntry
from ..wire import words
from ..wire.text import shortened
from . import output

_SHOWN = 400
"""The most bytes of a value that are shown. JSON output has all of them."""

_NONE = object()

_STYLES = {words.CONTINUE: "bold green", words.MODIFY: "bold green", words.RESPOND: "bold cyan"}


def show(outcome: Outcome[Any], before: Payload, *, title: str = "") -> None:
    """Print an outcome for people."""
    verdict = outcome.action if outcome.approved is None else "approved" if outcome.approved else "denied"
    output.line(f"{title}{outcome.stage}: {verdict}", style=_STYLES.get(outcome.action, "bold red"))
    output.pairs(_facts(outcome, before))
    if outcome.trail:
        output.line()
        output.table(("  hook", "action", "time", "error"), (_row(entry) for entry in outcome.trail))


def causes(outcome: Outcome[Any]) -> Iterator[str]:
    """Yields the errors of hooks that `show` prints."""
    return (entry.error for entry in outcome.trail if entry.error)


def _facts(outcome: Outcome[Any], before: Payload) -> Iterator[tuple[str, str]]:
    if outcome.reason:
        yield "reason", outcome.reason_for_llm  # the cause of a failure is in the table of hooks
    if outcome.severity:
        yield "severity", outcome.severity
    if outcome.feedback:
        yield "feedback", outcome.feedback
    if outcome.result is not None:
        yield "result", shown(outcome.result.wire())
    for change in changes(before.wire(), outcome.payload.wire()):
        yield "changed", change
    asked = [entry for entry in outcome.trail if not entry.skipped]
    if outcome.action == words.CONTINUE and asked and all(entry.error for entry in asked):
        yield "decided by", "no hook, since all that were asked failed: on_failure lets such a call pass"
    if not outcome.trail:
        yield "hooks", "no hook is asked at this stage"
    for entry in outcome.trail:
        for name, value in entry.notes.wire().items() if entry.notes is not None else ():
            yield name, f"{value if isinstance(value, str) else shown(value)} ({entry.hook})"


def _row(entry: TrailEntry) -> tuple[str, str, str, str]:
    action = "not asked: its filter" if entry.skipped else f"in shadow: {entry.would}" if entry.would else entry.action
    error = entry.error or ""
    if entry.retries:
        error = f"{error} (asked again {entry.retries} times)".strip()
    return f"  {entry.hook}", action, "" if entry.skipped else f"{entry.duration * 1000:.1f} ms", error


def shown(value: Any, at: KeyPath = ()) -> str:
    """Returns a value as JSON, cut to a length that fits a line."""
    del at
    return shortened(json.dumps(value, ensure_ascii=False), _SHOWN)


def changes(before: Any, after: Any, at: KeyPath = (), show: Callable[[Any, KeyPath], str] = shown) -> Iterator[str]:
    """Yields each difference between two JSON values, leaf by leaf. `show` returns the text of a value at a place."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(key, before.get(key, _NONE), after.get(key, _NONE)) for key in before | after]
    elif isinstance(before, list) and isinstance(after, list):
        pairs = [(index, *both) for index, both in enumerate(zip_longest(before, after, fillvalue=_NONE))]
    elif before is _NONE:
        yield f"{dotted(at)}: added {show(after, at)}"
        return
    elif after is _NONE:
        yield f"{dotted(at)}: removed {show(before, at)}"
        return
    else:
        if before != after:
            yield f"{dotted(at)}: {show(before, at)} → {show(after, at)}"
        return
    for key, old, new in pairs:
        yield from changes(old, new, (*at, key), show)
