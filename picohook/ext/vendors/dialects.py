"""The vendors, by the names in this extension's row. Each has a folder of its name, which is read when it is first needed."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import extension

if TYPE_CHECKING:
    from .vendor import Vendor

rows = extension.dialects
NAMES = tuple(rows)


@cache
def vendor_named(name: str) -> Vendor:
    """A vendor: `VENDOR` of its `contract.py`, with the table in its `vendor.toml`."""
    table = tomllib.loads((Path(__file__).parent / name / "vendor.toml").read_text(encoding="utf-8"))
    vendor: Vendor = import_module(f".{name}.contract", __package__).VENDOR.model_validate(table)
    return vendor


def dialect_in(document: dict[str, Any], path: Path) -> str | None:
    """The dialect of a file, by its path and its form; None if neither shows it. The last one in the row that takes it wins."""
    return next((name for name in reversed(NAMES) if rows[name].is_meant.load()(document, path)), None)
