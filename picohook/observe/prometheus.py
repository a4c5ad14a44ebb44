"""The metrics of a host in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .metrics import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def prometheus(status: Mapping[str, Any]) -> str:
    """The text for a host. `status` is the JSON form of its `HostStatus`."""
    lines: list[str] = []
    hooks = status["hooks"]
    proofs = status["proof_of_life"]
    stages = [
        ({"hook": hook["name"], "stage": stage}, metrics) for hook in hooks for stage, metrics in hook["stages"].items()
    ]

    def family(name: str, kind: str, about: str, samples: Iterable[tuple[dict[str, str], float]]) -> None:
        taken = list(samples)
        if taken:
            lines.extend([f"# HELP picohook_{name} {about}", f"# TYPE picohook_{name} {kind}"])
            lines.extend(f"picohook_{name}{_labels(labels)} {value}" for labels, value in taken)

    def histogram(name: str, about: str) -> None:
        lines.extend([f"# HELP picohook_{name} {about}", f"# TYPE picohook_{name} histogram"])
        for labels, metrics in stages:
            counts = [*zip(map(str, BOUNDS), metrics["histogram"], strict=True), ("+Inf", metrics["executions"])]
            lines.extend(f"picohook_{name}_bucket{_labels({**labels, 'le': bound})} {count}" for bound, count in counts)
            lines.append(f"picohook_{name}_sum{_labels(labels)} {metrics['total_ms'] / 1000}")
            lines.append(f"picohook_{name}_count{_labels(labels)} {metrics['executions']}")

    def per_stage(key: str) -> list[tuple[dict[str, str], float]]:
        return [(labels, metrics[key]) for labels, metrics in stages]

    def by(label: str, key: str) -> list[tuple[dict[str, str], float]]:
        return [({**labels, label: name}, count) for labels, metrics in stages for name, count in metrics[key].items()]

    def per_hook(key: str) -> list[tuple[dict[str, str], float]]:
        return [({"hook": hook["name"]}, hook[key]) for hook in hooks]

    family(
        "up", "gauge", "1 while the hook serves.", [({"hook": h["name"]}, int(h["state"] == "ready")) for h in hooks]
    )
    family("starts_total", "counter", "Processes started.", per_hook("starts"))
    family("dropped_lines_total", "counter", "Lines of the hook that were not messages.", per_hook("dropped_lines"))
    family("dropped_events_total", "counter", "Events that the hook was too slow to take.", per_hook("dropped_events"))
    family("executions_total", "counter", "Times the hook was asked.", per_stage("executions"))
    family("skipped_total", "counter", "Times its filter did not match.", per_stage("skipped"))
    family("retries_total", "counter", "Times it was asked again after a failure.", per_stage("retries"))
    family(
        "decisions_total",
        "counter",
        "Decisions, by action. A failure counts as the hook's on_failure says.",
        by("action", "decisions"),
    )
    family("failures_total", "counter", "Failures, by cause.", by("cause", "failures"))
    family("refused_edits_total", "counter", "Edits that its may_edit forbids.", per_stage("refused_edits"))
    if stages:
        histogram("duration_seconds", "How long the hook took to answer.")
    if proofs is not None:
        family(
            "proofs_of_life_total",
            "counter",
            "Harmful calls that hooks were asked about, by verdict.",
            [({"verdict": verdict}, count) for verdict, count in proofs["proofs"].items()],
        )
        about = "When every harmful call was last denied, in seconds since the epoch; 0 if never."
        family("last_denial_timestamp_seconds", "gauge", about, [({}, proofs["last_denial"])])
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}" if labels else ""
