"""The event loop of a hook. It awaits handlers, and reads meanwhile. A hook of plain functions never starts it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from typing import Protocol

    from .base import Call
    from .types import Handler

    class Serving(Protocol):
        """The part of the server that the loop uses."""

        stdin: int
        over: bool

        def receive(self) -> None: ...
        def ask(self, call: Call, handlers: Iterator[Handler]) -> Awaitable[Any] | None: ...
        def conclude(self, call: Call) -> None: ...
        def fail(self, call: Call, error: BaseException) -> None: ...
        def event_failed(self, error: BaseException) -> None: ...
        def warn(self, text: str) -> None: ...


GRACE = 1.0
"""Seconds that running handlers have to finish after the host has closed stdin."""
EVENTS = 1024
"""Events that may wait for their handler. When there are more, the oldest are dropped."""


class Loop:
    """Awaits the results of handlers, and reads for the server meanwhile."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._calls: dict[Any, tuple[Call, asyncio.Task[None]]] = {}
        self._events: deque[Awaitable[Any]] = deque()
        self._observing: asyncio.Task[None] | None = None

    def run(self, begin: Iterable[Callable[[Loop], None]]) -> None:
        """Serve until the host closes stdin."""
        try:
            self._loop.run_until_complete(self._serve(begin))
        finally:
            self.complete(_cancelled(self._begun()))

    def complete(self, awaitable: Awaitable[Any]) -> None:
        """Run until this awaitable is done."""
        self._loop.run_until_complete(awaitable)

    def close(self) -> None:
        """Cancel the tasks that handlers left, and close the loop."""
        self.complete(_cancelled(asyncio.all_tasks(self._loop)))
        self.complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, begin: Iterable[Callable[[Loop], None]]) -> None:
        for start in begin:
            start(self)
        try:
            self._loop.add_reader(self._server.stdin, self._readable)
        except OSError:  # stdin is a file, which cannot be polled and is always ready
            while not self._over.is_set():
                self._readable()
                await asyncio.sleep(0)
        await self._over.wait()
        self._loop.remove_reader(self._server.stdin)
        if begun := self._begun():
            await asyncio.wait(begun, timeout=GRACE)

    def _readable(self) -> None:
        self._server.receive()
        if self._server.over:
            self._over.set()

    def _begun(self) -> list[asyncio.Task[None]]:
        observing = [] if self._observing is None else [self._observing]
        return [task for _, task in self._calls.values()] + observing

    # Calls.

    def start(self, call: Call, awaitable: Awaitable[Any], handlers: Iterator[Handler]) -> None:
        """Await this handler, then call the remaining ones."""
        task = self._loop.create_task(self._finish(call, awaitable, handlers))
        self._calls[call.id] = call, task
        task.add_done_callback(lambda _: self._done(call, awaitable))

    def cancel(self, request_id: object) -> None:
        """Cancel the handler of this request: the host no longer waits for it."""
        if type(request_id) in {int, str, float} and request_id in self._calls:
            call, task = self._calls[request_id]
            call.given_up = True
            task.cancel()

    async def _finish(self, call: Call, awaitable: Awaitable[Any] | None, handlers: Iterator[Handler]) -> None:
        try:
            while awaitable is not None:
                call.take(await awaitable)
                awaitable = self._server.ask(call, handlers) if call.decision is None else None
            self._server.conclude(call)
        except asyncio.CancelledError as error:
            if not (call.given_up or self._server.over):  # the handler cancelled itself
                self._server.fail(call, error)
            raise
        except Exception as error:  # every request is answered
            self._server.fail(call, error)

    def _done(self, call: Call, awaitable: Awaitable[Any]) -> None:
        self._calls.pop(call.id, None)
        _close(awaitable)

    # Events.

    def observe(self, awaitable: Awaitable[Any]) -> None:
        """Await this handler of an event after the handlers of earlier events."""
        self._events.append(awaitable)
        if len(self._events) > EVENTS:
            _close(self._events.popleft())
            self._server.warn("dropped an event: its handler does not keep up")
        if self._observing is None or self._observing.done():
            self._observing = self._loop.create_task(self._observe())

    async def _observe(self) -> None:
        while self._events:
            try:
                await self._events.popleft()
            except Exception as error:  # the next handlers are still called
                self._server.event_failed(error)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, and wait `GRACE` for them to end."""
    left = {task for task in tasks if task is not asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=GRACE)


def _close(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine that never began, since Python warns about one that is not closed."""
    if asyncio.iscoroutine(awaitable):
        awaitable.close()
