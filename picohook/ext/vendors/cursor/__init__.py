"""Cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dialects import has_event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OWN_EVENTS = frozenset(
    {"beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "afterMCPExecution", "beforeReadFile"}
    | {"afterFileEdit", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought", "workspaceOpen"}
    | {"beforeTabFileRead", "afterTabFileEdit"}
)


def is_meant(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is Cursor's `hooks.json`, or has an event that only Cursor has."""
    return (path.parent.name == ".cursor" and path.name == "hooks.json") or has_event(document, _OWN_EVENTS)
