"""Limits how many requests a hook gets at once (`max_in_flight`). Other requests wait here for a free slot."""

from collections import OrderedDict

from ..errors import HookTimeoutError
from .reactor import Reactor, Waiter


class ConcurrencyLimit:
    """The slots of one hook. Calls get them in order, each until its own deadline."""

    __slots__ = ("_count", "_reactor", "_waiting", "free")

    def __init__(self, reactor: Reactor, count: int) -> None:
        self.free = self._count = count
        self._reactor = reactor
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        """The calls that wait, the first one first. One that leaves is not searched for, as in a semaphore's queue."""

    async def acquire(self, deadline: float, name: str) -> None:
        """Wait for a slot. Raises `HookTimeoutError` at the deadline."""
        if self.free:
            self.free -= 1
            return
        ahead, waiter = self._count + len(self._waiting), self._reactor.waiter()
        self._waiting[waiter] = None
        try:
            await waiter.wait(deadline)
        except BaseException as error:
            if waiter in self._waiting:
                del self._waiting[waiter]
            else:  # it has just got a slot
                self.release()
            if not isinstance(error, TimeoutError):
                raise
            calls = "1 call was" if ahead == 1 else f"{ahead} calls were"
            raise HookTimeoutError(f"timed out waiting for a free slot: {calls} ahead of it", hook=name) from None

    def release(self) -> None:
        """Give the slot to the call that has waited longest, or free it if none waits."""
        if self._waiting:
            self._waiting.popitem(last=False)[0].settle(None)
        else:
            self.free += 1
