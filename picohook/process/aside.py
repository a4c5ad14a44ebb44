"""Work that looks at files, done away from the event loop: a file system may take its time, or never answer."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST_STUCK = 4
"""Threads of one hook. What is stuck in a file system cannot be ended, only left behind."""


class NoThreadError(Exception):
    """The system has no thread for the work now. Nothing of it was done."""


class Aside:
    """Does such work for one hook, each piece in a thread."""

    def __init__(self) -> None:
        self._left: list[threading.Event] = []
        """For each piece that was left behind, whether it has come to its end."""

    async def do(self, work: Callable[[], T], deadline: float) -> T:
        """What `work` returns. Raises `TimeoutError` at the deadline, or at once where too many are stuck already.

        Raises `NoThreadError` when no thread can be started.
        """
        self._left = [ended for ended in self._left if not ended.is_set()]
        if len(self._left) >= MOST_STUCK:
            raise TimeoutError
        begun, ended = threading.Event(), threading.Event()

        def run() -> T:
            begun.set()
            try:
                return work()
            finally:
                ended.set()

        try:
            with anyio.CancelScope(deadline=deadline):
                limiter = anyio.CapacityLimiter(math.inf)  # what hangs here takes no thread from anybody else
                return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
            raise TimeoutError
        except RuntimeError as error:
            if begun.is_set():
                raise
            raise NoThreadError(str(error)) from None
        finally:
            if begun.is_set() and not ended.is_set():
                self._left.append(ended)
