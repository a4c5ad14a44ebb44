"""j-cli's configuration."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(
    name="jcli",
    uses=("prompt",),
)
