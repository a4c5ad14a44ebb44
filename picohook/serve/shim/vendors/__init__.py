"""The agents that `picohook shim` supports. A vendor is a file here, and an entry in `VENDORS`."""

from __future__ import annotations

from .claude import CLAUDE
from .codex import CODEX
from .copilot import COPILOT
from .cursor import CURSOR
from .gemini import GEMINI

VENDORS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "cursor": CURSOR, "copilot": COPILOT}
