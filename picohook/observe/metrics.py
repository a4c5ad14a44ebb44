"""Counts and times for each hook and stage. Recording is nearly free: most of the work is done when they are read."""

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Any

from ..wire import words

QUANTILES = (0.5, 0.95, 0.99)
BATCH = 1024
"""The number of durations that are collected before they are sorted into buckets."""
BOUNDS = tuple(2**power / 1e6 for power in range(7, 27))
"""The upper bounds of the histogram in seconds, from 0.1 ms to a minute. Each doubles the one before, so counts are exact."""

MOST_SEVERITIES = 16
"""The number of severities of one hook that are counted apart. Others are counted as `other`."""
COUNTS = {
    "executions": "Times the hook was asked.",
    "skipped": "Times its filter did not match.",
    "retries": "Times it was asked again after a failure.",
    "refused_edits": "Edits that its may_edit forbids.",
}
"""The counts of a stage, each with its description."""
COUNTS_BY_LABEL = {
    "decisions": ("action", "Decisions, by action. A failure counts as the hook's on_failure says."),
    "failures": ("cause", "Failures, by cause."),
    "would": ("action", "Decisions that a hook in shadow would have made, by action; also failed and dropped."),
    "severities": ("severity", "Denials that have a severity, by severity."),
}
"""For the counts of a stage that have several kinds, the label of the kind, and a description."""


class StageMetrics:
    """The metrics of one hook at one stage."""

    def __init__(self) -> None:
        self._other: defaultdict[str, int] = defaultdict(int)
        """The decisions that did not continue, by action."""
        self.failures: Counter[str] = Counter()
        """Failures by cause."""
        self.retries = 0
        self.degraded: Counter[str] = Counter()
        """The number of times that its fallback decided in its place, by cause."""
        self.refused_edits = 0
        """The number of times that an edit was not applied, because its `may_edit`, or that of its worker, forbids it."""
        self.severities: Counter[str] = Counter()
        """Denials with a severity, by severity."""
        self.skipped = 0
        """The number of times that the hook was not asked because its filter did not match."""
        self.would: defaultdict[str, int] = defaultdict(int)  # a `Counter` counts three times slower
        """In shadow, the number of times that it would have had each action, failed, or was not asked: `dropped`."""
        self._fresh: list[float] = []
        self._sorted: Counter[int] = Counter()
        self._total = 0.0

    def record(self, entry: Any) -> None:
        """Record one execution by its `TrailEntry`, or the delivery of an event, which has no action."""
        fresh = self._fresh
        fresh.append(entry.duration)
        if len(fresh) >= BATCH:
            self._sort()
        if entry.action != words.CONTINUE:
            self._other[entry.action] += 1
        if entry.error is None and not (entry.retries or entry.degraded or entry.severity):
            return  # as nearly always
        self.retries += entry.retries
        if entry.failure is not None:
            self.failures[entry.failure] += 1
        elif entry.degraded:
            self.degraded[entry.degraded.partition(": ")[2]] += 1
        elif entry.error is not None:
            self.refused_edits += 1
        if entry.severity:
            known = entry.severity in self.severities or len(self.severities) < MOST_SEVERITIES
            self.severities[entry.severity if known else "other"] += 1

    def _sort(self) -> Counter[int]:
        fresh, self._fresh = sorted(self._fresh), []
        self._total += sum(fresh)
        start = 0
        while start < len(fresh):  # one step for each bucket, not for each duration
            bucket = _bucket(fresh[start])
            end = max(bisect_left(fresh, _upper_end(bucket), start), start + 1)
            self._sorted[bucket] += end - start
            start = end
        return self._sorted

    @property
    def executions(self) -> int:
        """The number of times that the hook was asked."""
        return self._sort().total()

    @property
    def total(self) -> float:
        """The seconds of all executions together."""
        self._sort()
        return self._total

    @property
    def successes(self) -> int:
        """The number of executions that ended in a decision of the hook."""
        return self.executions - self.failures.total()

    @property
    def decisions(self) -> dict[str, int]:
        """The number of times that each action was its decision, or counted as one after a failure."""
        counts = {words.CONTINUE: self.executions - sum(self._other.values()), **self._other}
        return {action: count for action, count in counts.items() if action and count}

    @property
    def histogram(self) -> tuple[int, ...]:
        """The number of executions that took less than each of `BOUNDS`."""
        times = self._sort()
        ends = sorted((_upper_end(bucket), count) for bucket, count in times.items())
        return tuple(sum(count for end, count in ends if end <= bound) for bound in BOUNDS)

    def quantile(self, share: float) -> float:
        """The duration in seconds that this share of the executions did not exceed, exact to a sixteenth."""
        times = self._sort()
        left = share * times.total()
        for bucket in sorted(times):
            left -= times[bucket]
            if left <= 0:
                return _upper_end(bucket)
        return 0.0

    def wire(self) -> dict[str, Any]:
        """The JSON form, with times in milliseconds."""
        times = {f"p{share * 100:.0f}_ms": round(self.quantile(share) * 1000, 3) for share in QUANTILES}
        return {
            "executions": self.executions,
            "successes": self.successes,
            "decisions": self.decisions,
            "failures": dict(self.failures),
            "severities": dict(self.severities),
            "skipped": self.skipped,
            "retries": self.retries,
            "degraded": dict(self.degraded),
            **({"would": dict(self.would)} if self.would else {}),
            "refused_edits": self.refused_edits,
            "total_ms": round(self.total * 1000, 3),
            **times,
            "histogram": list(self.histogram),
        }


def _bucket(seconds: float) -> int:
    """The bucket of a time: microseconds to four significant bits, with the power of two in the upper bits."""
    micros = int(seconds * 1e6)
    shift = max(micros.bit_length() - 5, 0)
    return (shift << 5) + (micros >> shift)


def _upper_end(bucket: int) -> float:
    shift, kept = bucket >> 5, bucket & 31
    return ((kept + 1) << shift) / 1e6


class HookMetrics:
    """The metrics of one hook at all stages."""

    def __init__(self) -> None:
        self.stages: defaultdict[str, StageMetrics] = defaultdict(StageMetrics)

    @property
    def failures(self) -> int:
        """The number of failures at all stages, of all causes."""
        return sum(stage.failures.total() for stage in self.stages.values())

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: stage.wire() for name, stage in self.stages.items()}
