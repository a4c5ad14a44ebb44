"""Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.spec import HookSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def is_meant(document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Claude Code's settings, or has a list for each event of its `hooks`."""
    hooks = document.get("hooks")
    if path.parent.name == ".claude" and path.name.startswith("settings"):
        return True
    if not isinstance(hooks, dict) or not hooks.keys().isdisjoint(
        HookSpec.model_fields
    ):  # else a hook without its name
        return False
    return bool(hooks) and all(isinstance(entries, list) for entries in hooks.values())
