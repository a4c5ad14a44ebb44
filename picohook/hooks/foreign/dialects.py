"""The table of the dialects."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract import Dialect

DIALECTS = {"claude": "Claude Code", "codex": "Codex"}
"""The dialects, each with its system's name. The folder of each has its `Dialect`, by its name in capitals."""


def dialect_of(name: str) -> Dialect:
    """The dialect of this name. Its folder is imported when it is first needed."""
    dialect: Dialect = getattr(import_module(f"..{name}", __name__), name.upper())
    return dialect
