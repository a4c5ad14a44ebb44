"""The agents that `picohook shim` supports. A vendor is a file here, and an entry in `VENDORS`."""

from __future__ import annotations

from ..claude.shim import CLAUDE
from ..codex.shim import CODEX
from ..copilot.shim import COPILOT
from ..cursor.shim import CURSOR
from ..gemini.shim import GEMINI

VENDORS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "cursor": CURSOR, "copilot": COPILOT}
