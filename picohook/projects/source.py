"""Reads a host's configuration, and sees whether its files have changed."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..model.spec import HookSpec
from ..wire.regular_files import Identity
from . import trust
from .layers import Layers

if TYPE_CHECKING:
    from ..config.document import Config

Stamp = tuple[int, ...] | None
"""Distinguishes two states of a file; None if there is no file."""


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


class Source:
    """A configuration that can be read again, and the state of its files when it was last read.

    `load` reads it. `paths` are the files that it looks for, whether they exist or not.
    """

    def __init__(self, load: Callable[[], Layers], *paths: str | os.PathLike[str]) -> None:
        self._load = load
        self._paths = {os.path.abspath(path) for path in paths}
        self._configs: dict[str, Config] = {}
        """For each file that was ever read, by its path, the configuration that was last read from it."""
        self._stamps: dict[str, Stamp] = dict.fromkeys(self._paths)
        self._watched: set[str] = set()
        """The files, and the directories that they are in."""
        self.read_times = 0
        self.fingerprints: dict[str, object] = {}
        """For each hook, its settings, and the state of the project's files that it runs."""
        self.layers: Layers
        """The configuration in force: the first one, or that of the last reload."""

    def read(self) -> Layers:
        """The configuration as it is now. Raises `ConfigError`, also if it needs trust and has none."""
        # First of all, so that a change during the reading counts as one.
        before = self._stamps = {path: _stamp(path) for path in self._stamps}
        self.read_times += 1
        layers = self._load()
        layers.require_trust()
        scripts = {
            spec.name: [path for config in layers.configs for path in trust.scripts(config, spec)]
            for spec in layers.hooks
        }
        configs = {str(config.path): config for config in layers.configs}
        paths = {*configs, *(path for named in scripts.values() for path in named), *self._paths}
        self._stamps = {path: before[path] if path in before else _stamp(path) for path in paths}
        self.fingerprints = {
            spec.name: (spec.fingerprint, [self._stamps[path] for path in scripts[spec.name]]) for spec in layers.hooks
        }
        self._configs |= configs
        return layers

    def verify(self, spec: HookSpec) -> dict[str, Identity] | None:
        """Raise `TrustError` unless the configuration that was last read is still trusted: the `verify` of a host."""
        known = self._configs.get(spec.source)
        return None if known is None else trust.still_trusted(known, spec)

    def changed(self) -> bool:
        """Whether a file has changed since it was read."""
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())

    def directories(self) -> set[str]:
        """The directories to watch: those of the files and their links, and those in which any file counts."""
        names = {path for name in self._stamps for path in (name, os.path.realpath(name))}
        found = {os.path.dirname(path) for path in names}
        self._watched = names | found
        return {directory for directory in (*found, *self._stamps) if os.path.isdir(directory)}

    def concerns(self, path: str) -> bool:
        """Whether a change at this path counts. Other files change in the directories above a project all the time."""
        return path in self._watched or os.path.dirname(path) in self._stamps
