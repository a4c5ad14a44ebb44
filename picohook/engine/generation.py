"""A generation is the chains that began with the same hooks. A replaced hook is stopped when its generation is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model.spec import Timeouts
    from ..model.stages import Stage
    from .seat import Seat


class Generation:
    """The chains of one stage that begin with the same seats. Counts those that are running."""

    __slots__ = ("_earlier", "_longest", "_over", "budget", "running", "seats")

    def __init__(
        self,
        seats: tuple[Seat, ...] = (),
        budget: float = 0.0,
        longest: float = 0.0,
        earlier: Iterable[Generation] = (),
    ) -> None:
        self.seats = seats
        """The hooks that are asked, in order."""
        self.budget = budget
        """Seconds for all of them together."""
        self.running = 0
        self._longest = longest
        self._earlier = tuple(earlier)
        self._over: anyio.Event | None = None

    def leave(self) -> None:
        """Note that one of its chains is over."""
        self.running -= 1
        if self._over is not None and not self.running:
            self._over.set()

    def next(self, stage: Stage[Any], seats: tuple[Seat, ...], timeouts: Timeouts) -> Generation:
        """Returns the generation of chains that begin from now on, with other seats."""
        earlier = [generation for generation in (*self._earlier, self) if generation.running]
        return Generation(seats, timeouts.chain, _longest(stage, seats, timeouts), earlier)

    async def drained(self) -> None:
        """Wait until all earlier generations are over, or have had the time that their longest chain can take."""
        for generation in self._earlier:
            await generation.over()
        self._earlier = ()

    async def over(self) -> None:
        """Wait until its chains are over, or the longest has had its time. Called when no more of them can begin."""
        self._over = self._over or anyio.Event()
        if self.running:
            with anyio.move_on_after(self._longest):
                await self._over.wait()


def _longest(stage: Stage[Any], seats: Iterable[Seat], timeouts: Timeouts) -> float:
    """Returns the most seconds that a chain can take."""
    unbudgeted = [
        seat.longest * (1 + seat.hook.spec.retry) for seat in seats if stage.approves or seat.waits_for_person
    ]
    return max(unbudgeted, default=0.0) if stage.approves else timeouts.chain + sum(unbudgeted)
