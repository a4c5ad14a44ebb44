"""The event loop of the NATS client, which needs asyncio.

On asyncio it is the host's own loop. On trio it is a loop in a thread of its own.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from anyio import to_thread

from ...transport.reactor import Failure, Promise, Reactor
from .errors import NatsError

T = TypeVar("T")

CANCEL_AGAIN = 0.1
"""Seconds after which a task that still runs is cancelled again."""


class HostLoop:
    """The host's own loop, on asyncio: nothing is handed over. `ThreadLoop` has the same methods."""

    is_here = True
    """Whether it is the host's own loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._others: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run this in the client's loop. Returns its result."""
        return await work()

    def soon(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Run this in a task of the client's loop. Its failure is ignored."""
        _start(work, arguments, self._others)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this in a task of the client's loop. Called once. `aclose` cancels it."""
        self._task = asyncio.get_running_loop().create_task(work())

    def tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back in the host's loop. Called in the client's loop."""
        callback(*arguments)

    async def aclose(self) -> None:
        """Cancel the started task, and wait for its end."""
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again, because `asyncio.wait_for` loses a cancellation that comes with its result
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN)


class ThreadLoop:
    """An asyncio loop in a thread of its own, beside a host on trio."""

    is_here = False

    def __init__(self, reactor: Reactor) -> None:
        from anyio.from_thread import start_blocking_portal  # starts threads

        self._reactor = reactor
        self._portal_block = start_blocking_portal("asyncio")
        self._portal = self._portal_block.__enter__()
        self._loop = self._portal.call(asyncio.get_running_loop)
        self._others: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            future = self._portal.start_task_soon(work)
        except RuntimeError:  # it is closed
            raise NatsError("the connection is closed", cause="unreachable") from None
        promise = self._reactor.promise(lambda _: future.cancel())
        future.add_done_callback(lambda done: self.tell(self._settle, promise, done))
        result: T = await promise
        return result

    def _settle(self, promise: Promise, done: Future[Any]) -> None:
        try:
            value = done.result()
        except CancelledError:
            value = Failure(NatsError("the connection is closed", cause="unreachable"))
        except Exception as error:  # `run` raises it
            value = Failure(error)
        self._reactor.settle([(promise, value)])

    def soon(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(_start, work, arguments, self._others)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._portal.start_task_soon(work)

    def tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the host's loop has ended
            self._reactor.soon(functools.partial(callback, *arguments))

    async def aclose(self) -> None:
        await to_thread.run_sync(self._end)

    def _end(self) -> None:
        self._portal.call(self._portal.stop, True)
        self._portal_block.__exit__(None, None, None)


def _start(
    work: Callable[..., Coroutine[Any, Any, None]], arguments: tuple[Any, ...], tasks: set[asyncio.Task[None]]
) -> None:
    def ended(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled():
            task.exception()

    task = asyncio.get_running_loop().create_task(work(*arguments))
    tasks.add(task)  # the loop keeps no reference to it
    task.add_done_callback(ended)
