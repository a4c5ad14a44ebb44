"""The parts of a host that its processes use. `picohook.contain` has the tiers of containment, which start them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..model.spec import Timeouts
    from ..observe.log import Log
    from ..protocol.raw_line import RawLine
    from ..transport.reactor import Reactor
    from .plan import Plan, Verify

Streams = tuple[int, int, int]


class NotAvailableError(ValueError):
    """This machine cannot provide the containment, limits or sandbox of a hook's settings."""


class SpawnedProcess(Protocol):
    """A started process, the leader of its own process group. It has no terminal."""

    @property
    def pid(self) -> int:
        """The process's number in the host's PID namespace."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, as in `subprocess`: negative for a signal. It is valid once `when_ended` has called back."""

    @property
    def tier(self) -> str:
        """The tier of containment that holds its descendants."""

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once, in a later round of the event loop, when the process has ended and its group was killed."""

    def signal(self, number: int) -> None:
        """Signal its whole group, unless it has ended."""

    def kill_launcher(self) -> None:
        """Kill its parent, and so the process, if the parent is not this process. Call it if the process survives SIGKILL."""


class HostSpawner(Protocol):
    """Starts all processes of one host."""

    @property
    def tier(self) -> str | None:
        """The weakest tier of all started processes; None before the first start."""

    @property
    def unable(self) -> Mapping[str, str]:
        """The tiers that were tried and are not available, and why."""

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> SpawnedProcess:
        """See `Spawner.spawn`. Raises `NotAvailableError` for a containment, limits or a sandbox that it cannot provide."""

    async def aclose(self) -> None:
        """End all remaining processes."""


class Spawner(Protocol):
    """Starts processes."""

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> SpawnedProcess:
        """Start a process with these three descriptors, which the caller still has to close.

        Raises `OSError`, `ValueError` or `TimeoutError`. After an error or a cancellation no process is left.
        """


@dataclass(slots=True)
class ProcessServices:
    """The parts of a host that its processes use."""

    reactor: Reactor
    log: Log
    timeouts: Timeouts
    """The host's defaults. A reload may replace them."""
    spawner: Spawner
    """Starts processes."""
    verify: Verify | None = None
    """Called before every start of a process. It raises if the process must not run."""
    tap: Callable[[RawLine], None] | None = None
    """Called with every line to and from a process."""
