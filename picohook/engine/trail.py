"""Builds the trail: an entry for each hook of a chain, asked or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.decisions import CONTINUE, Approve, Deny
from ..model.trail import TrailEntry
from ..wire import words

if TYPE_CHECKING:
    from ..model.decisions import Decision
    from ..model.stages import Stage
    from .seat import Seat


def entry_of(
    name: str,
    decision: Decision,
    duration: float,
    error: str | None,
    failure: str | None,
    *,
    retries: int,
    degraded: str = "",
) -> TrailEntry:
    """Returns the entry of a hook or part. `failure` is the kind of its failure, for which `decision` was taken."""
    # By position: an object made by keywords costs twice as much.
    if decision is CONTINUE and error is None and not (retries or degraded):
        return TrailEntry(name, words.CONTINUE, duration)  # as nearly always
    entry = TrailEntry(name, decision.action, duration, error, decision.notes, retries)
    entry.reason, entry.failure, entry.degraded = "" if failure else decision.reason, failure, degraded
    if isinstance(decision, Deny):
        entry.severity = decision.severity
    elif isinstance(decision, Approve) and not degraded:
        entry.grant = decision.grant
    return entry


def not_asked(stage: Stage[Any], seat: Seat) -> TrailEntry:
    """The entry of a hook whose filter does not match. Counts it as skipped."""
    seat.hook.metrics.stages[stage.name].skipped += 1
    return TrailEntry(seat.name, "", skipped=True)
