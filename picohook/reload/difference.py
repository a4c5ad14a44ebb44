"""The difference between the hooks that run and those that the configuration names now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..engine.status import Reloaded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Difference(NamedTuple):
    """The names of hooks, by their treatment in a reload."""

    before: tuple[str, ...]
    """The configuration's hooks that run."""
    kept: tuple[str, ...]
    """The hooks of the new configuration that run already, with the same settings and scripts."""
    new: tuple[str, ...]
    """The other hooks of the new configuration: added or changed."""

    def reloaded(self, wanted: Collection[str], failed: Mapping[str, str]) -> Reloaded:
        """Returns the result of the reload: `wanted` are the hooks that it mounted, `failed` those that did not start."""
        started = [name for name in self.new if name in wanted and name not in failed]
        return Reloaded(
            added=tuple(name for name in started if name not in self.before),
            removed=tuple(name for name in self.before if name not in wanted),
            changed=tuple(name for name in started if name in self.before),
            kept=tuple(name for name in self.kept if name in wanted),
            failed=failed,
        )


def difference(running: Mapping[str, object], wanted: Mapping[str, object]) -> Difference:
    """Compare hooks by their fingerprints, in the order of the new configuration."""
    kept = tuple(name for name, fingerprint in wanted.items() if name in running and running[name] == fingerprint)
    return Difference(tuple(running), kept, tuple(name for name in wanted if name not in kept))
