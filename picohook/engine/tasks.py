"""The tasks of a host: one for each hook that runs, and others for work of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ..errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..hooks.base import Hook
    from ..transport.reactor import Reactor

T = TypeVar("T")


class Service(Generic[T]):
    """Work that a host does in a task of its own, until it is done or the host ends. Cancelling a caller does not stop it.

    It can be made in a callback of the event loop, where anyio knows of no event loop. So its scope is made in its task.
    """

    def __init__(self, work: Callable[[], Awaitable[T]], over: Callable[[Any], None] = lambda _: None) -> None:
        """`over` is called with this object when the task has ended."""
        self._work = work
        self._when_over = over
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False
        self.task = 0
        """The id of its task, once it runs."""
        self.ended = anyio.Event()
        self._results: list[T] = []
        self.error: Exception | SystemExit | None = None
        """The exception that the work raised."""

    def start(self, reactor: Reactor) -> None:
        reactor.spawn(self._run, self._over)

    def cancel(self) -> None:
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    async def _run(self) -> None:
        try:
            self.task = anyio.get_current_task().id
            with anyio.CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                self._results.append(await self._work())
        except (Exception, SystemExit) as error:  # `result` raises it
            self.error = error

    def _over(self) -> None:
        self._when_over(self)
        del self._work, self._when_over  # they often belong to an object that holds this service: that would be a cycle
        self.ended.set()

    async def result(self) -> T:
        """Wait for the end. Returns the work's result. Raises its error, or `PicohookError` if the host was closed."""
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if not self._results:
            raise PicohookError("the host was closed")
        return self._results[0]


class Mounted(Service[None]):
    """A hook, and the task that it runs in."""

    def __init__(self, hook: Hook, over: Callable[[Any], None] = lambda _: None) -> None:
        super().__init__(hook.run, over)
        self.hook = hook
