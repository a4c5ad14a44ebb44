"""Runs code in threads, off the event loop: a file system may be slow, and neither it nor a function need ever answer."""

import errno
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

T = TypeVar("T")

MOST_STUCK = 4
"""The number of threads of one hook's files that may be stuck. A thread that is stuck in a file system cannot be stopped."""


class _Run:
    """One run of a function in a thread. It holds a place until it ends."""

    has_begun = has_ended = is_abandoned = False

    def work_in_thread(self, function: Callable[..., T], arguments: Any, release: "Callable[[_Run], None]") -> tuple[T]:
        """Returns the function's result, in a tuple: trio takes no coroutine from a thread."""
        self.has_begun = True
        try:
            if self.is_abandoned:
                raise TimeoutError
            return (function(*arguments),)
        finally:
            self.has_ended = True
            if self.is_abandoned:
                with suppress(RuntimeError):  # the event loop has ended
                    anyio.from_thread.run_sync(release, self)


class Threads:
    """Up to `most` threads. One that is abandoned counts until its function returns."""

    def __init__(self, most: float = math.inf) -> None:
        self._places = anyio.CapacityLimiter(most)
        self._unlimited = anyio.CapacityLimiter(math.inf)  # on asyncio, a limiter forgets a thread that is abandoned
        self._runs: set[_Run] = set()
        """Those that hold a place."""

    @property
    def stuck(self) -> int:
        """The number of abandoned threads whose functions have not returned."""
        return sum(run.is_abandoned for run in self._runs)

    async def run(self, function: Callable[..., T], *arguments: Any) -> tuple[T]:
        """The result of a function, in a tuple. Waits for a free place. Raises `OSError` if no thread can be started."""
        run = _Run()
        try:
            self._places.acquire_on_behalf_of_nowait(run)
        except anyio.WouldBlock:
            await self._places.acquire_on_behalf_of(run)
        self._runs.add(run)
        given = function, arguments, self._release
        try:
            return await anyio.to_thread.run_sync(
                run.work_in_thread, *given, abandon_on_cancel=True, limiter=self._unlimited
            )
        except RuntimeError as error:
            if run.has_begun:
                raise
            raise OSError(errno.EAGAIN, str(error)) from None
        finally:
            run.is_abandoned = True
            if run.has_ended or not run.has_begun:
                self._release(run)

    def _release(self, run: _Run) -> None:
        """Give the place of a run back, once. It is called in the event loop."""
        if run in self._runs:
            self._runs.discard(run)
            self._places.release_on_behalf_of(run)


class FileThreads:
    """Runs the file operations of one hook, each in its own thread."""

    def __init__(self) -> None:
        self._threads = Threads()

    async def run(self, work: Callable[[], T], deadline: float) -> T:
        """The result of `work`.

        Raises `TimeoutError` at the deadline, or at once if too many threads are stuck. Raises `OSError` if no thread can be
        started.
        """
        if self._threads.stuck < MOST_STUCK:
            with anyio.CancelScope(deadline=deadline):
                (result,) = await self._threads.run(work)
                return result
        raise TimeoutError
