"""The reactor on asyncio (and uvloop): reader callbacks, futures and timer handles."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from ..wire.platforms import uvloop_has_monotonic_time
from .reactor import NOTES, Failure, Promise


class AsyncioReactor:
    """The running asyncio loop."""

    __slots__ = ("_context", "_loop", "_read", "_tasks", "_written", "now")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = _context_of_callbacks()
        self._tasks: set[asyncio.Task[None]] = set()
        self._read: set[int] = set()
        self._written: set[int] = set()
        # Call the clock directly if the loop's own `time` only calls it.
        self.now: Callable[[], float] = time.monotonic if _tells_monotonic_time(self._loop) else self._loop.time

    def is_here(self) -> bool:
        return _running_loop() is self._loop

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback, context=self._context.copy())

    def from_thread(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback, context=self._context.copy())

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], object]) -> Callable[[], object]:
        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task = self._loop.create_task(run())
        self._tasks.add(task)  # the loop keeps no reference to it
        task.add_done_callback(done, context=self._context.copy())
        return task.cancel

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        self._read.add(fd)
        self._context.copy().run(self._loop.add_reader, fd, callback)

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        def writable() -> None:
            if not callback() and fd in self._written:
                self._loop.remove_writer(fd)

        self._written.add(fd)
        self._context.copy().run(self._loop.add_writer, fd, writable)

    def release(self, fd: int) -> None:
        for watched, remove in ((self._read, self._loop.remove_reader), (self._written, self._loop.remove_writer)):
            if fd in watched and not self._loop.is_closed():
                watched.discard(fd)
                remove(fd)

    def promise(self, on_cancel: "Callable[[AsyncioPromise], object]") -> "AsyncioPromise":
        promise = AsyncioPromise()
        promise.on_cancel, promise.wake = on_cancel, None
        return promise

    def settle(self, ended: "Iterable[tuple[AsyncioPromise, Any]]") -> None:
        at_once = asyncio.current_task(self._loop) is None
        following = iter(ended)
        try:
            for promise, value in following:
                if _done(promise):
                    continue
                if type(value) is Failure:
                    promise.fail(value.error)
                else:
                    _set_result(promise, value)
                if promise.wake is None:  # it is not awaited yet: awaiting it will return at once
                    continue
                if at_once and promise.context is not None:
                    promise.context.run(promise.wake, promise)
                else:
                    promise.wake_soon()
        except BaseException:  # it ends the event loop; if the loop is run again, the other promises are settled
            self.soon(partial(self.settle, list(following)))
            raise

    def alarm(self, callback: Callable[[], None]) -> "AsyncioAlarm":
        return AsyncioAlarm(self._loop, callback, self._context)

    def waiter(self) -> "AsyncioWaiter":
        return AsyncioWaiter(self._loop)


def _context_of_callbacks() -> Context:
    """The context for callbacks, in which sniffio names asyncio.

    Otherwise sniffio looks for a running task. A callback has none, so anyio could not start a task from it.
    """
    context = copy_context()
    sniffio = sys.modules.get("sniffio")  # if it is installed, anyio has imported it
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


def _tells_monotonic_time(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's clock is `time.monotonic`, which is faster to call, and on uvloop more precise."""
    if type(loop).__module__ == "uvloop":  # on other systems uvloop may have another clock
        return uvloop_has_monotonic_time() and getattr(loop.time, "__self__", None) is loop
    return getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time


_running_loop = asyncio._get_running_loop  # noqa: SLF001 - documented for event loops, and it does not raise
_done, _set_result = asyncio.Future.done, asyncio.Future.set_result  # slow to look up on a promise


class AsyncioPromise(asyncio.Future[Any], Promise):
    """A future that continues the task that awaits it at once, and not in the loop's next round.

    A round polls every descriptor and costs half as much as a call. If another task is running, such as one that closes the
    hook, the awaiting task continues in the next round, as with any future.
    """

    __slots__ = (*NOTES, "context", "on_cancel", "wake")
    on_cancel: "Callable[[AsyncioPromise], object]"
    wake: Callable[[Any], object] | None
    context: Context | None

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self.wake is None and not _done(self):  # the task that awaits it
            self.wake, self.context = callback, context
        else:
            super().add_done_callback(callback, context=context)

    @property
    def waiting(self) -> Context | None:
        return None if self.wake is None else self.context

    def fail(self, error: BaseException) -> None:
        self.set_exception(error)
        self._log_traceback = False  # no "exception was never retrieved": a cancelled caller reads nothing

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self.on_cancel(self)
            if self.wake is not None:
                self.wake_soon()
        return cancelled

    def wake_soon(self) -> None:
        """Continue the task in the loop's next round."""
        assert self.wake is not None
        self.get_loop().call_soon(self.wake, self, context=self.context)


class AsyncioAlarm:
    """A timer handle. Each `set` makes a new one."""

    __slots__ = ("_callback", "_context", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None], context: Context) -> None:
        self._loop = loop
        self._callback = callback
        self._context = context
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        self.off()
        self._timer = self._loop.call_at(when, self._callback, context=self._context.copy())

    def off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AsyncioWaiter:
    """A future with a timer."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()

    def settle(self, value: Any) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def wait(self, deadline: float) -> Any:
        timer = self._loop.call_at(deadline, self.settle, _LATE)
        try:
            value = await self._future
        finally:
            timer.cancel()
        if value is _LATE:
            raise TimeoutError  # not as the future's error: its traceback would hold this frame, and the frame the future
        return value


_LATE = object()
