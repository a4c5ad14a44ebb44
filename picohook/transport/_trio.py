"""The reactor on trio: a system task a watched descriptor, and tasks that are parked and rescheduled.

System tasks, because the last thing that a cancelled host does is to see its children die: their watchers must outlive the
cancellation that ends everything else.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TrioReactor:
    """The running trio loop."""

    __slots__ = ("_token", "_watches", "now")

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._watches: dict[tuple[int, str], object] = {}
        self.now = trio.current_time

    def soon(self, callback: Callable[[], None]) -> None:
        self._token.run_sync_soon(callback)

    def on_readable(self, fd: int, callback: Callable[[], None]) -> None:
        self._spawn(fd, "read", trio.lowlevel.wait_readable, callback)

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        def writable() -> None:
            if not callback():
                self._watches.pop((fd, "write"), None)

        self._spawn(fd, "write", trio.lowlevel.wait_writable, writable)

    def _spawn(self, fd: int, way: str, wait: Callable[[int], Awaitable[None]], callback: Callable[[], None]) -> None:
        # The watch is an object of its own: a descriptor that was released and used again is another watch.
        watch = object()
        self._watches[fd, way] = watch

        def wanted() -> bool:
            return self._watches.get((fd, way)) is watch

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
        if self._watches.pop((fd, "read"), None) or self._watches.pop((fd, "write"), None):
            self._watches.pop((fd, "write"), None)
            trio.lowlevel.notify_closing(fd)

    def waiter(self) -> TrioWaiter:
        return TrioWaiter()


class _Unset(Enum):
    UNSET = 0


class TrioWaiter:
    """A parked task, and the cancel scope that bounds its sleep."""

    __slots__ = ("_scope", "_task", "_value")

    def __init__(self) -> None:
        self._value: Any = _Unset.UNSET
        self._task: trio.lowlevel.Task | None = None
        self._scope: trio.CancelScope | None = None

    def settle(self, value: Any) -> None:
        if self._value is not _Unset.UNSET:
            return
        self._value = value
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    def extend(self, deadline: float) -> None:
        if self._scope is not None:
            self._scope.deadline = deadline

    async def wait(self, deadline: float) -> Any:
        if self._value is _Unset.UNSET:
            with trio.CancelScope(deadline=deadline) as self._scope:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._unpark)
            if self._value is _Unset.UNSET:
                raise TimeoutError
        return self._value

    def _unpark(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
