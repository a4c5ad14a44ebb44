"""Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

from __future__ import annotations

from ...extension import Extension

extension = Extension(name="guards")
