"""Counts and times, per hook and stage. Recording one costs next to nothing; reading them costs what it costs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

QUANTILES = (0.5, 0.95, 0.99)
AT_ONCE = 1024
"""Times that are kept as they are until they are sorted into their buckets, all together."""


class StageMetrics:
    """What one hook did at one stage."""

    __slots__ = ("_fresh", "_sorted", "_total", "failures", "retries", "skipped")

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """By cause."""
        self.retries = 0
        self.skipped = 0
        """Not asked, because its filter did not match."""
        self._fresh: list[float] = []
        self._sorted: Counter[int] = Counter()
        self._total = 0.0

    def record(self, duration: float, failure: str | None, retries: int) -> None:
        """One execution: how long it took with its retries, and the cause of its failure, if it failed."""
        fresh = self._fresh
        fresh.append(duration)
        if len(fresh) >= AT_ONCE:
            self._sort()
        if retries:
            self.retries += retries
        if failure is not None:
            self.failures[failure] += 1

    def _sort(self) -> Counter[int]:
        fresh, self._fresh = sorted(self._fresh), []
        self._total += sum(fresh)
        start = 0
        while start < len(fresh):  # once for each bucket, not for each time
            bucket = _bucket(fresh[start])
            end = max(bisect_left(fresh, _upper_end(bucket), start), start + 1)
            self._sorted[bucket] += end - start
            start = end
        return self._sorted

    @property
    def executions(self) -> int:
        """How often it was asked."""
        return self._sort().total()

    @property
    def total(self) -> float:
        """Seconds."""
        self._sort()
        return self._total

    @property
    def successes(self) -> int:
        """Executions that came to a decision of the hook's own."""
        return self.executions - self.failures.total()

    def quantile(self, share: float) -> float:
        """The time, in seconds, that this share of the executions did not exceed: exact to a sixteenth."""
        times = self._sort()
        left = share * times.total()
        for bucket in sorted(times):
            left -= times[bucket]
            if left <= 0:
                return _upper_end(bucket)
        return 0.0

    def wire(self) -> dict[str, Any]:
        """The plain JSON form; times in milliseconds."""
        times = {f"p{share * 100:.0f}_ms": round(self.quantile(share) * 1000, 3) for share in QUANTILES}
        return {
            "executions": self.executions,
            "successes": self.successes,
            "failures": dict(self.failures),
            "skipped": self.skipped,
            "retries": self.retries,
            "total_ms": round(self.total * 1000, 3),
            **times,
        }


def _bucket(seconds: float) -> int:
    """Microseconds, to four significant bits: the power of two in the upper bits of the number, the rest below."""
    micros = int(seconds * 1e6)
    shift = max(micros.bit_length() - 5, 0)
    return (shift << 5) + (micros >> shift)


def _upper_end(bucket: int) -> float:
    shift, kept = bucket >> 5, bucket & 31
    return ((kept + 1) << shift) / 1e6


class HookMetrics:
    """What one hook did, at all stages."""

    __slots__ = ("stages",)

    def __init__(self) -> None:
        self.stages: defaultdict[str, StageMetrics] = defaultdict(StageMetrics)

    @property
    def failures(self) -> int:
        """At all stages, of all causes."""
        return sum(stage.failures.total() for stage in self.stages.values())

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return {name: stage.wire() for name, stage in self.stages.items()}


def prometheus(hooks: Iterable[Mapping[str, Any]]) -> str:
    """The statuses of hooks (their JSON form) in Prometheus' text format."""
    lines: list[str] = []
    hooks = list(hooks)

    def family(name: str, kind: str, about: str, samples: Iterable[tuple[dict[str, str], float]]) -> None:
        taken = list(samples)
        if taken:
            lines.extend([f"# HELP picohook_{name} {about}", f"# TYPE picohook_{name} {kind}"])
            lines.extend(f"picohook_{name}{_labels(labels)} {value}" for labels, value in taken)

    def per_stage(key: str) -> list[tuple[dict[str, str], float]]:
        return [
            ({"hook": hook["name"], "stage": stage}, metrics[key])
            for hook in hooks
            for stage, metrics in hook["stages"].items()
        ]

    def per_hook(key: str) -> list[tuple[dict[str, str], float]]:
        return [({"hook": hook["name"]}, hook[key]) for hook in hooks]

    family(
        "up", "gauge", "1 while the hook serves.", [({"hook": h["name"]}, int(h["state"] == "ready")) for h in hooks]
    )
    family("starts_total", "counter", "Processes started.", per_hook("starts"))
    family("dropped_lines_total", "counter", "Lines of the hook that were no message.", per_hook("dropped_lines"))
    family("dropped_events_total", "counter", "Events that the hook was too slow for.", per_hook("dropped_events"))
    family("executions_total", "counter", "Times the hook was asked.", per_stage("executions"))
    family("skipped_total", "counter", "Times its filter did not match.", per_stage("skipped"))
    family("retries_total", "counter", "Times it was asked again after a failure.", per_stage("retries"))
    failures = [
        ({"hook": hook["name"], "stage": stage, "cause": cause}, count)
        for hook in hooks
        for stage, metrics in hook["stages"].items()
        for cause, count in metrics["failures"].items()
    ]
    family("failures_total", "counter", "Failures, by cause.", failures)
    seconds = [
        ({"hook": hook["name"], "stage": stage, "quantile": f"{share:g}"}, metrics[f"p{share * 100:.0f}_ms"] / 1000)
        for hook in hooks
        for stage, metrics in hook["stages"].items()
        for share in QUANTILES
    ]
    family("duration_seconds", "summary", "How long it took to answer.", seconds)
    for suffix, key, scale in (("sum", "total_ms", 1000), ("count", "executions", 1)):
        lines.extend(
            f"picohook_duration_seconds_{suffix}{_labels(labels)} {value / scale}" for labels, value in per_stage(key)
        )
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"
