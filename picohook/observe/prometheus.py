"""The metrics of a host in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .metrics import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Labels = Mapping[str, str]
    Counted = Sequence[tuple[Labels, Mapping[str, Any]]]
    """Hooks or stages, each with its labels and its counts."""

_OF_HOOKS = {
    "starts": ("starts_total", "Processes started."),
    "dropped_lines": ("dropped_lines_total", "Lines of the hook that were not messages."),
    "dropped_events": ("dropped_events_total", "Events that the hook was too slow to take."),
}
_OF_STAGES = {
    "executions": ("executions_total", "Times the hook was asked."),
    "skipped": ("skipped_total", "Times its filter did not match."),
    "retries": ("retries_total", "Times it was asked again after a failure."),
    "refused_edits": ("refused_edits_total", "Edits that its may_edit forbids."),
}
"""For the counts of hooks and of stages, the names and descriptions of their counters."""
_BY_LABEL = {
    "decisions": ("action", "Decisions, by action. A failure counts as the hook's on_failure says."),
    "failures": ("cause", "Failures, by cause."),
}
"""For the counts of stages that have several kinds, the label of the kind, and a description."""


def prometheus(status: Mapping[str, Any]) -> str:
    """The text for a host. `status` is the JSON form of its `HostStatus`."""
    hooks = [({"hook": hook["name"]}, hook) for hook in status["hooks"]]
    stages = [({**of, "stage": stage}, counts) for of, hook in hooks for stage, counts in hook["stages"].items()]
    up = [(labels, int(hook["state"] == "ready")) for labels, hook in hooks]
    lines = [
        *_family("up", "gauge", "1 while the hook serves.", up),
        *_counters(_OF_HOOKS, hooks),
        *_counters(_OF_STAGES, stages),
        *_counters_by_label(stages),
        *_durations(stages),
        *_proofs(status["proof_of_life"]),
    ]
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, samples: Sequence[tuple[Labels, float]]) -> Iterator[str]:
    """Yields the lines of one metric; none without samples."""
    if samples:
        yield from _head(name, kind, about)
        yield from (f"picohook_{name}{_shown(labels)} {value}" for labels, value in samples)


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP picohook_{name} {about}", f"# TYPE picohook_{name} {kind}"


def _counters(names: Mapping[str, tuple[str, str]], counted: Counted) -> Iterator[str]:
    for key, (name, about) in names.items():
        yield from _family(name, "counter", about, [(labels, counts[key]) for labels, counts in counted])


def _counters_by_label(stages: Counted) -> Iterator[str]:
    for key, (label, about) in _BY_LABEL.items():
        samples = [({**labels, label: kind}, count) for labels, counts in stages for kind, count in counts[key].items()]
        yield from _family(f"{key}_total", "counter", about, samples)


def _durations(stages: Counted) -> Iterator[str]:
    """Yields the lines of a histogram; none without stages."""
    if stages:
        yield from _head("duration_seconds", "histogram", "How long the hook took to answer.")
    for labels, counts in stages:
        buckets = [*zip(map(str, BOUNDS), counts["histogram"], strict=True), ("+Inf", counts["executions"])]
        for bound, count in buckets:
            yield f"picohook_duration_seconds_bucket{_shown({**labels, 'le': bound})} {count}"
        yield f"picohook_duration_seconds_sum{_shown(labels)} {counts['total_ms'] / 1000}"
        yield f"picohook_duration_seconds_count{_shown(labels)} {counts['executions']}"


def _proofs(proofs: Mapping[str, Any] | None) -> Iterator[str]:
    if proofs is not None:
        about = "Harmful calls that hooks were asked about, by verdict."
        verdicts = [({"verdict": verdict}, count) for verdict, count in proofs["proofs"].items()]
        yield from _family("proofs_of_life_total", "counter", about, verdicts)
        about = "When every harmful call was last denied, in seconds since the epoch; 0 if never."
        yield from _family("last_denial_timestamp_seconds", "gauge", about, [({}, proofs["last_denial"])])


def _shown(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
