"""A seat: one hook in the chain of one stage, with its timeout and its filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import words

if TYPE_CHECKING:
    from ..hooks.base import Hook
    from ..model.filters import Filter
    from ..model.payloads import Payload
    from ..model.trail import TrailEntry

KEPT_FOR_FALLBACK = 0.25
"""The share of a hook's time that is kept for its fallback."""
PROGRESS_FACTOR = 10
PROGRESS_MOST = 600.0
"""A hook that shows progress may take ten times its timeout, but no more than this many seconds."""


def longest(timeout: float) -> float:
    """The seconds that a question with this timeout may take if the hook shows progress."""
    return max(timeout, min(timeout * PROGRESS_FACTOR, PROGRESS_MOST))


class Seat:
    """A hook's place in a stage's chain."""

    def __init__(
        self,
        hook: Hook,
        timeout: float,
        filter: Filter | None = None,  # noqa: A002 - what it is
        fallback: Seat | None = None,
    ) -> None:
        self.hook = hook
        self.name = hook.name
        self.timeout = timeout
        self.longest = longest(timeout)
        """Seconds that the hook may take if it shows progress."""
        self.filter = filter
        self.fallback = fallback
        """The seat of the hook that decides if this one fails."""
        self.shadow = hook.shadow
        """Whether it is asked beside the chain."""
        self.guard = hook.spec.guard and not hook.shadow
        self.is_system = hook.spec.layer == "system"
        """Whether it may take only a part of the chain's time."""
        self.waits_for_person = hook.waits_for_person
        self.has_usual_end = not (self.is_system or self.waits_for_person)
        """Whether its time ends with the chain's."""

    def deadlines(self, begun: float, end: float) -> tuple[float, float]:
        """Returns when a question ends that begins now, and when it ends at the latest if the hook shows progress.

        A hook with a fallback has three quarters of its time. The rest is kept for its fallback.
        """
        deadline, limit = begun + self.timeout, begun + self.longest
        if limit > end:
            limit = end
            deadline = deadline if deadline < end else end  # noqa: FURB136 - min() takes four times as long
        if self.fallback is None:
            return deadline, limit
        kept = (deadline - begun) * KEPT_FOR_FALLBACK
        return deadline - kept, limit - kept

    def count(self, stage: str, entry: TrailEntry, now: float) -> None:
        figures, failures = self.hook.metrics.stages[stage], self.hook.failures
        figures.record(entry.duration, entry.action, entry.failure, entry.retries)
        if entry.error is None and not entry.degraded:
            if failures.failing:
                failures.answered(stage, now)
            if entry.action != words.DENY:
                return  # as nearly always
        elif entry.failure is None and not entry.degraded:
            failures.add(stage, "edit", str(entry.error), entry.action, now)
        figures.record_rare(entry)

    def wants(self, payload: Payload) -> bool:
        """Whether the hook is asked about this payload."""
        return self.filter is None or self.filter.matches(payload)
