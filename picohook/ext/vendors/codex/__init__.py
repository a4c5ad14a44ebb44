"""Codex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def is_meant(_document: Mapping[str, Any], path: Path) -> bool:
    """Whether it is one of Codex's files, by its place."""
    return path.parent.name == ".codex" and path.name in {"hooks.json", "config.toml"}
