"""Spans and metrics for OpenTelemetry."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="otel",
)
