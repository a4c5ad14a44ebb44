"""Limits how many requests a hook gets at once (`max_in_flight`). Other requests wait here for a free slot."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..errors import HookTimeoutError

if TYPE_CHECKING:
    from .reactor import Reactor, Waiter


class ConcurrencyLimit:
    """The slots of one hook. Calls get them in order, each until its own deadline."""

    __slots__ = ("_count", "_queue", "_reactor", "free")

    def __init__(self, reactor: Reactor, count: int) -> None:
        self.free = self._count = count
        self._reactor = reactor
        self._queue: deque[Waiter] = deque()

    async def acquire(self, deadline: float, name: str) -> None:
        """Wait for a slot. Raises `HookTimeoutError` at the deadline."""
        if self.free:
            self.free -= 1
            return
        waiter = self._reactor.waiter()
        self._queue.append(waiter)
        try:
            await waiter.wait(deadline)
        except BaseException as error:
            ahead = self._count
            if waiter in self._queue:
                ahead += self._queue.index(waiter)
                self._queue.remove(waiter)
            else:
                self.release()
            if isinstance(error, TimeoutError):
                calls = "1 call was" if ahead == 1 else f"{ahead} calls were"
                why = f"timed out waiting for a free slot: {calls} ahead of it"
                raise HookTimeoutError(why, hook=name) from None
            raise

    def release(self) -> None:
        """Give the slot to the call that has waited longest, or free it if none waits."""
        if self._queue:
            self._queue.popleft().settle(None)
        else:
            self.free += 1
