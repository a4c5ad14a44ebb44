"""What a host has under way: hooks that run, work of its own, and chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ..errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ..hooks.base import Hook
    from ..model.spec import Timeouts
    from ..model.stages import Stage
    from ..transport.reactor import Reactor
    from .chain import Seat

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Mounted:
    """A hook, and its task."""

    hook: Hook
    ended: anyio.Event
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancels its task."""
    task: int = 0
    """The id of its task, once it runs."""


class Service(Generic[T]):
    """Something that a host does in a task of its own, until it is done or the host ends; whoever waits for it or not."""

    def __init__(self, work: Callable[[], Awaitable[T]], services: set[Service[Any]]) -> None:
        self._work = work
        self._services = services
        services.add(self)
        self.scope = anyio.CancelScope()
        """Cancels it: the host ends."""
        self.task = 0
        """The id of its task, once it runs."""
        self.ended = anyio.Event()
        """It is over, in whatever way."""
        self._results: list[T] = []
        self.error: Exception | SystemExit | None = None
        """What it raised."""

    def start(self, reactor: Reactor) -> None:
        """Begin."""
        reactor.spawn(self._run, self._over)

    async def _run(self) -> None:
        try:
            self.task = anyio.get_current_task().id
            with self.scope:
                self._results.append(await self._work())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is for who asks for the result
            self.error = error

    def _over(self) -> None:
        del self._work  # whoever keeps this is often what the work belongs to
        self._services.discard(self)
        self.ended.set()

    async def result(self) -> T:
        """What came of it."""
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if not self._results:
            raise PicohookError("the host was closed")
        return self._results[0]


class Chains:
    """The chains of one stage that begin under one arrangement of the hooks, and how many of them are under way."""

    __slots__ = ("_earlier", "_longest", "_over", "budget", "seats", "under_way")

    def __init__(
        self, seats: tuple[Seat, ...] = (), budget: float = 0.0, longest: float = 0.0, earlier: Iterable[Chains] = ()
    ) -> None:
        self.seats = seats
        """Who is asked, in order."""
        self.budget = budget
        """Seconds for all of them together."""
        self.under_way = 0
        self._longest = longest
        self._earlier = tuple(earlier)
        self._over: anyio.Event | None = None

    def leave(self) -> None:
        """One of them is over."""
        self.under_way -= 1
        if self._over is not None and not self.under_way:
            self._over.set()

    def followed(self, stage: Stage[Any], seats: tuple[Seat, ...], timeouts: Timeouts) -> Chains:
        """Those that begin from now on, under another arrangement."""
        earlier = [chains for chains in (*self._earlier, self) if chains.under_way]
        return Chains(seats, timeouts.chain, _longest(stage, seats, timeouts), earlier)

    async def drained(self) -> None:
        """Until all that began before these are over, or have had the time that the longest can take."""
        for chains in self._earlier:
            await chains.over()
        self._earlier = ()

    async def over(self) -> None:
        """Until these are, when no more can begin."""
        self._over = self._over or anyio.Event()
        if self.under_way:
            with anyio.move_on_after(self._longest):
                await self._over.wait()


def _longest(stage: Stage[Any], seats: Iterable[Seat], timeouts: Timeouts) -> float:
    """Seconds that a chain can take at most."""
    unbudgeted = [
        seat.patience * (1 + seat.hook.spec.retry) for seat in seats if stage.approves or seat.hook.waits_for_person
    ]
    return max(unbudgeted, default=0.0) if stage.approves else timeouts.chain + sum(unbudgeted)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did: each hook of the new configuration is in one of `added`, `changed`, `kept` and `failed`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Those that did not start, and why. Where there was an old one, it stays; else the new one is started again."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        names = {kind: list(getattr(self, kind)) for kind in ("added", "removed", "changed", "kept")}
        return {**names, "failed": dict(self.failed)}
