"""GitHub Copilot: its CLI, and its cloud agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dialects import has_event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OWN_EVENTS = frozenset(
    {"userPromptSubmitted", "userPromptTransformed", "permissionRequest", "agentStop", "errorOccurred", "notification"}
)
_OWN_KEYS = frozenset({"bash", "powershell", "timeoutSec"})
_PLACES = {(".github", "hooks"), (".github", "copilot"), (".copilot", "hooks")}


def is_meant(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of GitHub Copilot's files, by its place, or has what only Copilot has."""
    is_place = path.parent.parts[-2:] in _PLACES or path.parent.name == ".copilot"
    return is_place or has_event(document, _OWN_EVENTS) or _has_own_key(document)


def _has_own_key(document: Mapping[str, Any]) -> bool:
    hooks = document.get("hooks")
    lists = hooks.values() if isinstance(hooks, dict) else ()
    entries = (one for some in lists if isinstance(some, list) for one in some)
    return any(isinstance(one, dict) and not _OWN_KEYS.isdisjoint(one) for one in entries)
