"""The metrics of hooks in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .metrics import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def prometheus(hooks: Iterable[Mapping[str, Any]]) -> str:
    """The text for these hooks. Each is the JSON form of a `HookStatus`."""
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
    family("dropped_lines_total", "counter", "Lines of the hook that were not messages.", per_hook("dropped_lines"))
    family("dropped_events_total", "counter", "Events that the hook was too slow to take.", per_hook("dropped_events"))
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
    family("duration_seconds", "summary", "How long the hook took to answer.", seconds)
    for suffix, key, scale in (("sum", "total_ms", 1000), ("count", "executions", 1)):
        lines.extend(
            f"picohook_duration_seconds_{suffix}{_labels(labels)} {value / scale}" for labels, value in per_stage(key)
        )
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"
