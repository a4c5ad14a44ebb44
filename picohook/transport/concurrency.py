"""Limits how many requests a hook gets at once (`max_in_flight`). Other requests wait here for a free slot."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING

from ..errors import HookTimeoutError

if TYPE_CHECKING:
    from .reactor import Reactor, Waiter

_NUMBER = itemgetter(0)


class ConcurrencyLimit:
    """The slots of one hook. Calls get them in order, each until its own deadline."""

    __slots__ = ("_count", "_numbers", "_queue", "_reactor", "_served", "free")

    def __init__(self, reactor: Reactor, count: int) -> None:
        self.free = self._count = count
        self._reactor = reactor
        self._numbers = itertools.count()
        self._queue: list[tuple[int, Waiter]] = []
        """The calls that wait, in order of their numbers. The first `_served` of them have stopped waiting."""
        self._served = 0

    async def acquire(self, deadline: float, name: str) -> None:
        """Wait for a slot. Raises `HookTimeoutError` at the deadline."""
        if self.free:
            self.free -= 1
            return
        number, waiter = next(self._numbers), self._reactor.waiter()
        self._queue.append((number, waiter))
        try:
            await waiter.wait(deadline)
        except BaseException as error:
            place = bisect_left(self._queue, number, self._served, key=_NUMBER)
            ahead = self._count + place - self._served
            if place == len(self._queue) or self._queue[place][0] != number:  # it has just got a slot
                self.release()
            elif place == self._served:
                self._serve()
            else:
                del self._queue[place]
            if isinstance(error, TimeoutError):
                calls = "1 call was" if ahead == 1 else f"{ahead} calls were"
                why = f"timed out waiting for a free slot: {calls} ahead of it"
                raise HookTimeoutError(why, hook=name) from None
            raise

    def _serve(self) -> Waiter:
        """Take the first call out of the queue."""
        _, waiter = self._queue[self._served]
        self._served += 1
        if 2 * self._served >= len(self._queue):  # to remove each alone would move all others each time
            del self._queue[: self._served]
            self._served = 0
        return waiter

    def release(self) -> None:
        """Give the slot to the call that has waited longest, or free it if none waits."""
        if self._queue:
            self._serve().settle(None)
        else:
            self.free += 1
