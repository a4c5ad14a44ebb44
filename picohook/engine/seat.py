"""A seat: one hook in the chain of one stage, with its timeout and its filter; and its entries in the trail."""

from ..hooks.base import Hook
from ..model.decisions import CONTINUE, Approve, Decision, Deny
from ..model.filters import Filter
from ..model.payloads import Payload
from ..model.trail import TrailEntry
from ..wire import words

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
        fallback: "Seat | None" = None,
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
        failures = self.hook.failures
        self.hook.metrics.stages[stage].record(entry)
        if entry.error is None:
            if failures.failing and not entry.degraded:
                failures.answered(stage, now)
        elif entry.failure is None and not entry.degraded:
            failures.add(stage, "edit", entry.error, entry.action, now)

    def wants(self, payload: Payload) -> bool:
        """Whether the hook is asked about this payload."""
        return self.filter is None or self.filter.matches(payload)

    def not_asked(self, stage: str) -> TrailEntry:
        """The entry of a hook whose filter does not match. Counts it as skipped."""
        self.hook.metrics.stages[stage].skipped += 1
        return TrailEntry(self.name, "", skipped=True)


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
