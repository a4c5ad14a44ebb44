"""`max_in_flight`: a hook's questions wait here for their turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..errors import HookTimeoutError

if TYPE_CHECKING:
    from .reactor import Reactor, Waiter


class Slots:
    """How many requests a hook is given at once; the rest waits here, in order, each within its own deadline."""

    __slots__ = ("_queue", "_reactor", "free")

    def __init__(self, reactor: Reactor, count: int) -> None:
        self.free = count
        self._reactor = reactor
        self._queue: deque[Waiter] = deque()

    async def take(self, deadline: float, name: str) -> None:
        """A slot, or `HookTimeoutError`."""
        if self.free:
            self.free -= 1
            return
        waiter = self._reactor.waiter()
        self._queue.append(waiter)
        try:
            await waiter.wait(deadline)
        except BaseException as error:
            if waiter in self._queue:
                self._queue.remove(waiter)
            else:
                self.give_back()
            if isinstance(error, TimeoutError):
                raise HookTimeoutError("its turn did not come in time: others were before it", hook=name) from None
            raise

    def give_back(self) -> None:
        """The slot goes to who waits longest."""
        if self._queue:
            self._queue.popleft().settle(None)
        else:
            self.free += 1
