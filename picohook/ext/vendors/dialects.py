"""The vendors, by the names in this extension's row, and their files. Each has a folder of its name, read when it is needed."""

from __future__ import annotations

import re
import tomllib
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.spec import HookSpec
from . import extension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .vendor import Vendor

rows = extension.dialects
NAMES = tuple(rows)
_OWN_EVENTS = {
    "gemini": re.compile("(Before|After)[A-Z].*|PreCompress"),
    "cursor": re.compile("(before|after)[A-Z].*|workspaceOpen"),
    "copilot": re.compile("userPrompt(Submitted|Transformed)|permissionRequest|agentStop|errorOccurred|notification"),
}
"""The events that only this vendor has."""
_KEYS_OF_COPILOT = frozenset({"bash", "powershell", "timeoutSec"})


@cache
def vendor_named(name: str) -> Vendor:
    """A vendor: `VENDOR` of its `contract.py`, with the table in its `vendor.toml`."""
    table = tomllib.loads((Path(__file__).parent / name / "vendor.toml").read_text(encoding="utf-8"))
    vendor: Vendor = import_module(f".{name}.contract", __package__).VENDOR.model_validate(table)
    return vendor


def dialect_in(document: dict[str, Any], path: Path) -> str | None:
    """The dialect of a file, by its path and its form; None if neither shows it. The last one in the row that takes it wins."""
    return next((name for name in reversed(NAMES) if rows[name].is_meant.load()(document, path)), None)


def _is_of(vendor: str, document: Mapping[str, Any], path: Path) -> bool:
    """Whether a file is in one of the vendor's places, or has what only this vendor has in it."""
    places = (*rows[vendor].user_files, *rows[vendor].project_files)
    if any(path.match(place.removeprefix("~/")) for place in places):
        return True
    hooks = document.get("hooks")
    if not isinstance(hooks, dict) or not hooks or not all(isinstance(entries, list) for entries in hooks.values()):
        return False
    if vendor == "claude":
        return hooks.keys().isdisjoint(HookSpec.model_fields)  # they would be a hook without its name
    if vendor == "gemini" and (path.parent.parent / "gemini-extension.json").is_file():
        return True
    entries = [one for some in hooks.values() for one in some if isinstance(one, dict)]
    if vendor == "copilot" and any(not _KEYS_OF_COPILOT.isdisjoint(one) for one in entries):
        return True
    return vendor in _OWN_EVENTS and any(map(_OWN_EVENTS[vendor].fullmatch, hooks))


claude = partial(_is_of, "claude")
codex = partial(_is_of, "codex")
gemini = partial(_is_of, "gemini")
cursor = partial(_is_of, "cursor")
copilot = partial(_is_of, "copilot")
