"""Which hooks are asked at each stage and told of each event: for a host, and for each session with hooks of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.stages import STAGES
from .generation import Generation
from .order import audiences, seats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..hooks.base import Hook
    from ..model.spec import Timeouts
    from .order import Audience
    from .tasks import Mounted
    from .tool_ownership import Ownership


class Arrangement:
    """The hooks of a host or of a session, by name, by stage and by kind of event."""

    def __init__(self, owners: Ownership) -> None:
        self.owners = owners
        self.by_name: Mapping[str, Mounted] = {}
        self.generations = dict.fromkeys(STAGES, Generation())
        """For each stage, the chains that begin now."""
        self.audiences: dict[str, Audience] = {}
        """For each kind of event, the hooks that are told."""

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are asked and told."""
        return tuple(mounted.hook for mounted in self.by_name.values())

    def arrange(self, ordered: Sequence[Hook], timeouts: Timeouts) -> None:
        """Ask and tell these hooks from now on. A chain that began before keeps the seats that it has."""
        seated = seats(ordered, timeouts)
        for name, stage in STAGES.items():
            self.generations[name] = self.generations[name].next(stage, seated[name], timeouts)
        self.audiences = audiences(ordered)
        self.owners.provide({hook.name: hook.spec.provides for hook in ordered})

    def host_changed(self) -> None:
        """The host's hooks or timeouts have changed."""
