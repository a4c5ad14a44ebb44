"""Spans and metrics for OpenTelemetry."""

from ...extension import Extension, Keyword, Lazy

extension = Extension(
    name="otel",
    keywords={
        "otel": Keyword(
            Lazy("picohook.ext.otel.listener:OtelPart"),
            help="Send traces and metrics with OpenTelemetry, as opentelemetry-instrument sets it up.",
        ),
    },
)
