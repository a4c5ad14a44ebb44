"""Metrics for Prometheus."""

from __future__ import annotations

from ...extension import Extension, Lazy, Option

extension = Extension(
    name="prometheus",
    options={
        "run --prometheus": Option(
            Lazy("picohook.ext.prometheus.file:write_at_end"),
            "At the end, write counts and times to a file, in Prometheus' text format; - is standard output.",
            metavar="FILE",
        ),
    },
)
