"""The contracts of other systems with their hooks, as data and pure functions. A dialect is a folder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from .contract import Dialect

Failures: TypeAlias = Literal["strict", "vendor"]
"""What a handler's failure counts as: `strict` denies where the vendor's agent would let a call through."""

DIALECTS = {"claude": "Claude Code"}
"""The dialects, each with its system's name. The folder of each has its `Dialect`, by its name in capitals."""


def dialect_of(name: str) -> Dialect:
    """The dialect of this name. Its folder is imported when it is first needed."""
    dialect: Dialect = getattr(import_module(f".{name}", __name__), name.upper())
    return dialect
