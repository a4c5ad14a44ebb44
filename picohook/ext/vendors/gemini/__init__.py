"""Gemini CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dialects import has_event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OWN_EVENTS = frozenset(
    {"BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection"}
    | {"PreCompress"}
)


def is_meant(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Gemini CLI's settings, the hooks of an extension, or has an event that only Gemini CLI has."""
    if path.name == "settings.json" and path.parent.name == ".gemini":
        return True
    if path.name == "hooks.json" and (path.parent.parent / "gemini-extension.json").is_file():
        return True
    return has_event(document, _OWN_EVENTS)
