"""Where a configuration comes from, and whether that has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...errors import Problem
    from ...hooks.base import Complete
    from ...model.spec import HookSpec
    from ...wire.regular_files import Identity
    from .. import Config
    from ..layers import Layers

Stamp = tuple[int, ...] | None
"""What tells one state of a file from another."""


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _none(_: HookSpec) -> None:
    """There is no model to ask."""


class Source:
    """A configuration that can be read again, and what its files were like when it was read last.

    `load` reads one file, or all layers; `paths` are files that it looks for, there or not.
    """

    def __init__(
        self, load: Callable[[], Config | Layers], *paths: str | os.PathLike[str], asks_models: bool = False
    ) -> None:
        self._load = load
        self._asks_models = asks_models
        """Whether its hooks ask the models that it names. An embedder's own `complete` stands in for all of them."""
        self._ways: Callable[[HookSpec], Complete | None] = _none
        self._places = {os.path.abspath(path) for path in paths}
        self._configs: dict[str, Config] = {}
        """The last state of each that was read, by its path."""
        self._stamps: dict[str, Stamp] = dict.fromkeys(self._places)
        self.read_times = 0
        self.prints: dict[str, object] = {}
        """For each hook what it is made of: its settings, and the files beside the configuration that it runs."""
        self.doubts: tuple[Problem, ...] = ()
        """What it says in vain."""

    def read(self) -> Config | Layers:
        """The configuration as it is now. Raises `ConfigError`, also where it needs trust and has none."""
        from .. import trust  # noqa: PLC0415 - hosts built in code do without
        from ..model_endpoints import ways_to_models  # noqa: PLC0415
        from ..warnings import doubts  # noqa: PLC0415

        # Before anything is read: what changes from here on is a change.
        before = self._stamps = {path: _stamp(path) for path in self._stamps}
        self.read_times += 1
        read = self._load()
        configs = read.configs
        for config in configs:
            trust.require_trust(config)
        ways = ways_to_models(read) if self._asks_models else _none
        scripts = {
            spec.name: [path for config in configs for path in trust.scripts(config, spec)] for spec in read.hooks
        }
        files = {str(config.path) for config in configs} | {path for named in scripts.values() for path in named}
        paths = files | self._places
        self._stamps = {path: before[path] if path in before else _stamp(path) for path in paths}
        self.prints = {
            spec.name: (spec.fingerprint, [self._stamps[path] for path in scripts[spec.name]]) for spec in read.hooks
        }
        self._configs |= {str(config.path): config for config in configs}
        self.doubts = tuple(doubts(read))
        self._ways = ways
        return read

    def model_of(self, spec: HookSpec) -> Complete | None:
        """What asks the model of a hook, as it was read last; for the `model_of` of a host."""
        return self._ways(spec)

    def verify(self, spec: HookSpec) -> dict[str, Identity] | None:
        """Raise `TrustError` unless what was read last is trusted still: for the `verify` of a host."""
        from .. import trust  # noqa: PLC0415

        known = self._configs.get(spec.source)
        return None if known is None else trust.still_trusted(known, spec)

    def changed(self) -> bool:
        """Whether a file is not what it was when it was read."""
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())

    def directories(self) -> set[str]:
        """Where to look for changes: where the files are, and where links say that they are."""
        places = {os.path.dirname(path) for name in self._stamps for path in (name, os.path.realpath(name))}
        return {place for place in places if os.path.isdir(place)}
