"""Metrics for Prometheus."""

from ...extension import Extension, Keyword, Lazy, Option

extension = Extension(
    name="prometheus",
    public=("metrics",),
    keywords={
        "prometheus": Keyword(
            Lazy("picohook.ext.prometheus.endpoint:PrometheusPart"),
            "[HOST:]PORT",
            "Also answer GET /metrics there: on this machine alone unless HOST is given.",
        ),
    },
    options={
        "run --prometheus": Option(
            Lazy("picohook.ext.prometheus.file:write_at_end"),
            "At the end, write counts and times to a file, in Prometheus' text format; - is standard output.",
            metavar="FILE",
        ),
    },
)
