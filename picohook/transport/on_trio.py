"""The reactor on trio: a system task for each watched descriptor, and tasks that are parked and rescheduled.

System tasks are not cancelled with the host, which still waits for its processes to end.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextvars import Context, copy_context
from typing import Any

import trio

from .reactor import NOTES, Failure, Promise


class TrioReactor:
    """The running trio loop."""

    __slots__ = ("_token", "_watched", "now")

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._watched: dict[tuple[int, str], object] = {}
        self.now = trio.lowlevel.current_clock().current_time  # what `trio.current_time` calls

    def is_here(self) -> bool:
        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:  # no trio loop runs here
            return False

    def soon(self, callback: Callable[[], None]) -> None:
        self._token.run_sync_soon(callback)

    from_thread = soon  # any thread may call it

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], object]) -> Callable[[], object]:
        scope = trio.CancelScope()

        async def run_to_the_end() -> None:
            try:
                with scope:
                    await run()
            finally:
                ended()

        trio.lowlevel.spawn_system_task(run_to_the_end, name=run, context=copy_context())
        return scope.cancel

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        self._spawn(fd, "read", trio.lowlevel.wait_readable, callback)

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        def writable() -> None:
            if not callback():
                self._watched.pop((fd, "write"), None)

        self._spawn(fd, "write", trio.lowlevel.wait_writable, writable)

    def _spawn(self, fd: int, way: str, wait: Callable[[int], Awaitable[None]], callback: Callable[[], object]) -> None:
        # Each watch is an object, because a released descriptor may be reused for another watch.
        watch = object()
        self._watched[fd, way] = watch

        def wanted() -> bool:
            return self._watched.get((fd, way)) is watch

        async def run() -> None:
            while wanted():
                try:
                    await wait(fd)
                except (trio.ClosedResourceError, OSError):
                    return
                if not wanted():
                    return
                callback()

        trio.lowlevel.spawn_system_task(run, name=f"picohook {way} {fd}")

    def release(self, fd: int) -> None:
        if self._watched.pop((fd, "read"), None) or self._watched.pop((fd, "write"), None):
            self._watched.pop((fd, "write"), None)
            trio.lowlevel.notify_closing(fd)

    def promise(self, on_cancel: "Callable[[TrioPromise], object]") -> "TrioPromise":
        return TrioPromise(on_cancel)

    def settle(self, ended: "Iterable[tuple[TrioPromise, Any]]") -> None:
        for promise, value in ended:
            promise.settle(value)

    def alarm(self, callback: Callable[[], None]) -> "TrioAlarm":
        return TrioAlarm(callback)

    def waiter(self) -> "TrioWaiter":
        return TrioWaiter()


class TrioAlarm:
    """A system task that sleeps in a cancel scope whose deadline can be moved. While the alarm is off there is no task."""

    __slots__ = ("_callback", "_scope")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._scope: trio.CancelScope | None = None

    def set(self, when: float) -> None:
        if self._scope is None:
            self._scope = trio.CancelScope(deadline=when)
            trio.lowlevel.spawn_system_task(self._sleep, self._scope, name="picohook alarm")
        else:
            self._scope.deadline = when

    async def _sleep(self, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_forever()
        if self._scope is scope:
            self._scope = None
            self._callback()

    def off(self) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.cancel()


_UNSET = object()


class TrioPromise(Promise):
    """A value, and the task that is parked until it comes."""

    __slots__ = (*NOTES, "_on_cancel", "_task", "_value")

    def __init__(self, on_cancel: "Callable[[TrioPromise], object]") -> None:
        self._value: Any = _UNSET
        self._task: trio.lowlevel.Task | None = None
        self._on_cancel = on_cancel

    def settle(self, value: Any) -> None:
        if self._value is _UNSET:
            self._value = value
            if self._task is not None:
                task, self._task = self._task, None
                trio.lowlevel.reschedule(task)

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._value is _UNSET:
            self._task = trio.lowlevel.current_task()
            yield from trio.lowlevel.wait_task_rescheduled(self._unpark).__await__()  # noqa: ASYNC105 - this awaits it
        value = self._value
        if type(value) is not Failure:
            return value
        try:
            raise value.error.with_traceback(None)  # several tasks may get one error: it must not collect their frames
        finally:
            del value, self  # else the traceback keeps both alive

    @property
    def waiting(self) -> Context | None:
        return None if self._task is None else self._task.context

    def _unpark(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        self._on_cancel(self)
        return trio.lowlevel.Abort.SUCCEEDED


class TrioWaiter:
    """A promise that is awaited in a cancel scope with a deadline."""

    __slots__ = ("_promise",)

    def __init__(self) -> None:
        self._promise = TrioPromise(lambda _: None)

    def settle(self, value: Any) -> None:
        self._promise.settle(value)

    async def wait(self, deadline: float) -> Any:
        with trio.CancelScope(deadline=deadline):
            return await self._promise
        raise TimeoutError
