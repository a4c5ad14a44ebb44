"""The Rust worker: a program that is started for each call."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="rust_worker",
)
