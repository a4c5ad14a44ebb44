"""The part of a conversation that runs on an event loop: for handlers that are awaited."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from .base import Call
    from .serving import Server
    from .types import Handler

LAST_WORDS = 1.0
"""Seconds that what was begun has to finish, once the host has closed its end."""
EVENTS = 1024
"""Events that may wait for their handler; then the oldest give way."""


class Loop:
    """Awaits what handlers return, and reads for the server meanwhile."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._calls: dict[Any, tuple[Call, asyncio.Task[None]]] = {}
        self._events: deque[Awaitable[Any]] = deque()
        self._observing: asyncio.Task[None] | None = None

    def run(self, begin: Iterable[Callable[[Loop], None]]) -> None:
        """Serve until the host closes its end."""
        try:
            self._loop.run_until_complete(self._serve(begin))
        finally:
            self.complete(_cancelled(self._begun()))

    def complete(self, awaitable: Awaitable[Any]) -> None:
        """Run until this is done."""
        self._loop.run_until_complete(awaitable)

    def close(self) -> None:
        """End what handlers left running."""
        self.complete(_cancelled(asyncio.all_tasks(self._loop)))
        self.complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, begin: Iterable[Callable[[Loop], None]]) -> None:
        for start in begin:
            start(self)
        try:
            self._loop.add_reader(self._server.stdin, self._readable)
        except OSError:  # a file, which no system call says is ready, because it always is
            self._readable_again()
        await self._over.wait()
        self._loop.remove_reader(self._server.stdin)
        if begun := self._begun():
            await asyncio.wait(begun, timeout=LAST_WORDS)

    def _readable(self) -> None:
        self._server.receive()
        if self._server.over:
            self._over.set()

    def _readable_again(self) -> None:
        self._readable()
        if not self._server.over:
            self._loop.call_soon(self._readable_again)

    def _begun(self) -> list[asyncio.Task[None]]:
        observing = [] if self._observing is None else [self._observing]
        return [task for _, task in self._calls.values()] + observing

    # Calls.

    def start(self, call: Call, awaitable: Awaitable[Any], handlers: Iterator[Handler]) -> None:
        """Await an answer, then ask the handlers that are left."""
        task = self._loop.create_task(self._finish(call, awaitable, handlers))
        self._calls[call.id] = call, task
        task.add_done_callback(lambda _: self._done(call, awaitable))

    def cancel(self, request_id: object) -> None:
        """The host waits no longer for this one."""
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
            if not (call.given_up or self._server.over):  # it is the handler's own
                self._server.fail(call, error)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, its request is answered
            self._server.fail(call, error)

    def _done(self, call: Call, awaitable: Awaitable[Any]) -> None:
        self._calls.pop(call.id, None)
        _close(awaitable)

    # Events.

    def observe(self, awaitable: Awaitable[Any]) -> None:
        """Await this after all that came before it."""
        self._events.append(awaitable)
        if len(self._events) > EVENTS:
            _close(self._events.popleft())
            self._server.complain("dropped an event: its handler does not keep up")
        if self._observing is None or self._observing.done():
            self._observing = self._loop.create_task(self._observe())

    async def _observe(self) -> None:
        while self._events:
            try:
                await self._events.popleft()
            except Exception as error:  # noqa: BLE001 - the next ones are told too
                self._server.missed(error)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and give them a while to end."""
    left = {task for task in tasks if task is not asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=LAST_WORDS)


def _close(awaitable: Awaitable[Any]) -> None:
    """Of a coroutine that never began: say that this is meant."""
    if asyncio.iscoroutine(awaitable):
        awaitable.close()


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread of its own. The process does not wait for it when it ends."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((value, error))

    def call() -> None:
        value, raised = None, None
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            raised = error
        try:
            loop.call_soon_threadsafe(settle, value, raised)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    threading.Thread(target=call, daemon=True, name=getattr(function, "__name__", None)).start()
    value, error = await outcome
    if error is not None:
        raise error
    return value
