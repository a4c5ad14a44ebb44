"""Limits how many processes of a host start at once, so that each gets a processor soon."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio

from ..wire.platforms import processors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ..transport.reactor import Alarm, Reactor

LEAST, FOR_EACH_PROCESSOR = 8, 8
"""The number of starts that run at once."""
TURN = 1.0
"""Seconds after which a turn is over: the hook then waits for something else than a processor, such as a network."""


class StartTurns:
    """The turns of one host. A start has its turn from the reading of its files to the answer to hello."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._free = anyio.Semaphore(max(LEAST, FOR_EACH_PROCESSOR * processors()), fast_acquire=True)
        self._given: dict[Hashable, Alarm] = {}
        """The starts that have their turn. Each alarm ends one."""

    async def take(self, start: Hashable) -> None:
        """Wait until it is the turn of this start. Call `over` afterwards."""
        await self._free.acquire()
        alarm = self._given[start] = self._reactor.alarm(partial(self.over, start))
        alarm.set(self._reactor.now() + TURN)

    def over(self, start: Hashable) -> None:
        """Give the turn of this start to the next one. Does nothing if the turn is over already."""
        alarm = self._given.pop(start, None)
        if alarm is not None:
            alarm.off()
            self._free.release()
