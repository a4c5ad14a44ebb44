"""The names of the dialects. The folder of each has its `Dialect`, by its name in capitals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from .contract import Dialect

DialectName: TypeAlias = Literal["claude", "codex", "gemini", "cursor", "copilot"]


def dialect_of(name: str) -> Dialect:
    """The dialect of this name. Its folder is imported when it is first needed."""
    dialect: Dialect = getattr(import_module(f".{name}", __package__), name.upper())
    return dialect
