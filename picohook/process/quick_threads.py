"""Runs plain functions of microseconds in threads that wait for the next one."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from ..transport.event_loop import current_reactor
from ..transport.reactor import Failure, Promise

T = TypeVar("T")


class QuickThreads:
    """Up to `most` threads that call plain functions for the running event loop.

    They are for work of microseconds at each call: anyio's threads cost five times as much. A function that never returns
    keeps its thread, which does not keep the program from ending.
    """

    def __init__(self, most: int) -> None:
        self._most, self._started, self._unfinished = most, 0, 0
        self._reactor = current_reactor()
        self._wanted: SimpleQueue[Promise | None] = SimpleQueue()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Returns the function's result, or raises its error. It is not called if this is cancelled before."""
        promise = self._reactor.promise(_forget)
        promise.about = partial(function, *arguments)
        self._unfinished += 1
        if self._started < min(self._unfinished, self._most):
            threading.Thread(target=self._work, name="picohook", daemon=True).start()
            self._started += 1
        self._wanted.put(promise)
        result: T = await promise
        return result

    def close(self) -> None:
        """End the threads when all is done that was wanted."""
        for _ in range(self._started):
            self._wanted.put(None)

    def _work(self) -> None:
        while self._has_done(self._wanted.get()):
            pass

    def _has_done(self, promise: Promise | None) -> bool:
        if promise is None:
            return False
        work, value = promise.about, None
        try:
            if work is not None:
                value = work()
        except Exception as error:
            value = Failure(error)
        with suppress(RuntimeError):  # the event loop has ended
            self._reactor.from_thread(partial(self._settle, promise, value))
        return True

    def _settle(self, promise: Promise, value: Any) -> None:
        self._unfinished -= 1
        self._reactor.settle([(promise, value)])


def _forget(promise: Promise) -> None:
    promise.about = None
