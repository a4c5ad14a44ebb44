"""Hooks of Blade Agent SDK."""

from ...extension import Extension

extension = Extension(
    name="blade",
)
