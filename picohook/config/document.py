"""A configuration file, as the rest of picohook sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..model.spec import HookSpec, Timeouts


@dataclass(frozen=True, kw_only=True)
class Config:
    """A configuration file: its hooks, and the settings that they share."""

    path: Path
    """The file, absolute, in its real directory."""
    project: Path
    """The directory that the file is for: its own, or the one above `.picohook`."""
    work: Path
    """The directory that hooks run in, for dialects whose paths are not relative to the file."""
    dialect: str
    """The name of its dialect, such as "native"."""
    digest: str
    """SHA-256 of the file's bytes."""
    found: bool
    """Whether the file was found, and not named by the user. Then it may set less, and needs trust."""
    timeouts: Timeouts
    """The timeouts of hooks that set none."""
    hooks: tuple[HookSpec, ...] = ()
    """The enabled hooks, in the order of the file, with `[defaults]` applied, an absolute `dir`, and `path` as `source`."""
    key_paths: Mapping[str, str] = field(default_factory=dict)
    """For each hook, by its name, its key path in the file."""
    enabled: bool = True
    """False for a file that switches all of its hooks off: then there are none."""
    warnings: tuple[str, ...] = ()
    """Settings that are valid and have no effect, as far as this file alone shows."""
    layer: Literal["system", "user", "project"] | None = None
    """The layer that the hooks are in; None for a file that the user named."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """The tables of extensions, by their keys, with absolute paths. Each is a `config.table.Table`."""
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Top-level keys that the caller gave in place of the file's own."""
