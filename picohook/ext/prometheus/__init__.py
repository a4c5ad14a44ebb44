"""Metrics for Prometheus."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="prometheus",
)
