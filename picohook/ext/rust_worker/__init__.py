"""The Rust worker: a program that is started for each call."""

from ...extension import Extension

extension = Extension(
    name="rust_worker",
)
