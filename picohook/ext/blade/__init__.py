"""Hooks of Blade Agent SDK."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="blade",
)
