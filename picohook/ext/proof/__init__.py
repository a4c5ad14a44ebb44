"""Proofs of life: harmful calls that hooks must deny."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="proof",
)
