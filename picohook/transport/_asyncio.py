"""The reactor on asyncio (and uvloop): reader callbacks, futures and timer handles."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class AsyncioReactor:
    """The running asyncio loop."""

    __slots__ = ("_loop", "_watched", "now")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched: set[int] = set()
        self.now = self._loop.time

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def on_readable(self, fd: int, callback: Callable[[], None]) -> None:
        self._watched.add(fd)
        self._loop.add_reader(fd, callback)

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        def writable() -> None:
            if not callback() and fd in self._watched:
                self._loop.remove_writer(fd)

        self._watched.add(fd)
        self._loop.add_writer(fd, writable)

    def release(self, fd: int) -> None:
        if fd in self._watched and not self._loop.is_closed():
            self._watched.discard(fd)
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)

    def waiter(self) -> AsyncioWaiter:
        return AsyncioWaiter(self._loop)


class AsyncioWaiter:
    """A future, and the timer that ends it."""

    __slots__ = ("_future", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    def settle(self, value: Any) -> None:
        if not self._future.done():
            self._future.set_result(value)

    def extend(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        if not self._future.done():
            self._future.set_exception(TimeoutError())

    async def wait(self, deadline: float) -> Any:
        self._timer = self._loop.call_at(deadline, self._expire)
        try:
            return await self._future
        finally:
            self._timer.cancel()
            self._timer = None
