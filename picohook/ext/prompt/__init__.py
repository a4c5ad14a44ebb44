"""Hooks that ask a model, and the model's endpoint."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="prompt",
)
