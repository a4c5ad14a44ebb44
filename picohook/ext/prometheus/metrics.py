"""The metrics of a host for Prometheus. Needs its client library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...observe.metrics import BOUNDS, COUNTS, COUNTS_BY_LABEL
from ...wire.extras import needs

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
except ImportError:
    raise PicohookError(needs("the export of metrics", "prometheus-client", "prometheus")) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    Counted = Sequence[tuple[list[str], Mapping[str, Any]]]
    """Hooks or stages, each with the values of its labels and its counts."""

_OF_HOOKS = {
    "starts": "Processes started.",
    "dropped_lines": "Lines of the hook that were not messages.",
    "dropped_events": "Events that the hook was too slow to take.",
}


def registry(status: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    """Returns a registry with the metrics of one host. `status` returns the JSON form of its `HostStatus`."""
    made = CollectorRegistry(auto_describe=False)
    made.register(_Metrics(status))
    return made


def prometheus(status: Mapping[str, Any]) -> str:
    """Returns the text for a host. `status` is the JSON form of its `HostStatus`."""
    return generate_latest(registry(lambda: status)).decode()


class _Metrics(Collector):
    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def describe(self) -> tuple[()]:
        """Returns nothing: the names are known without asking the host."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yields each metric that has a value."""
        status = self._status()
        hooks = [([hook["name"]], hook) for hook in status["hooks"]]
        stages = [([*of, stage], counts) for of, hook in hooks for stage, counts in hook["stages"].items()]
        up = GaugeMetricFamily("picohook_up", "1 while the hook serves.", labels=["hook"])
        for labels, hook in hooks:
            up.add_metric(labels, hook["state"] == "ready")
        yield from (family for family in self._families(up, hooks, stages) if family.samples)
        if (proofs := status["proof_of_life"]) is not None:
            yield from _proofs(proofs)
        if "grants" in status:
            yield _counter("grant_uses", "Calls that grants have approved.", [], [([], status["grants"]["uses"])])

    @staticmethod
    def _families(up: Metric, hooks: Counted, stages: Counted) -> Iterator[Metric]:
        yield up
        for key, about in _OF_HOOKS.items():
            yield _counter(key, about, ["hook"], [(labels, counts[key]) for labels, counts in hooks])
        for key, about in COUNTS.items():
            yield _counter(key, about, ["hook", "stage"], [(labels, counts[key]) for labels, counts in stages])
        for key, (label, about) in COUNTS_BY_LABEL.items():
            samples = [([*of, kind], count) for of, counts in stages for kind, count in counts.get(key, {}).items()]
            yield _counter(key, about, ["hook", "stage", label], samples)
        durations = HistogramMetricFamily(
            "picohook_duration_seconds", "How long the hook took to answer.", labels=["hook", "stage"]
        )
        for labels, counts in stages:
            buckets = [*zip(map(str, BOUNDS), counts["histogram"], strict=True), ("+Inf", counts["executions"])]
            durations.add_metric(labels, buckets, counts["total_ms"] / 1000)
        yield durations


def _counter(name: str, about: str, labels: list[str], samples: Sequence[tuple[list[str], float]]) -> Metric:
    family = CounterMetricFamily(f"picohook_{name}", about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _proofs(proofs: Mapping[str, Any]) -> Iterator[Metric]:
    about = "Harmful calls that hooks were asked about, by verdict."
    verdicts = [([verdict], count) for verdict, count in proofs["proofs"].items()]
    yield _counter("proofs_of_life", about, ["verdict"], verdicts)
    about = "When every harmful call was last denied, in seconds since the epoch; 0 if never."
    yield GaugeMetricFamily("picohook_last_denial_timestamp_seconds", about, value=proofs["last_denial"])
