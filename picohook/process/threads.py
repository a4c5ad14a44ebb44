"""Runs file operations in threads, off the event loop: a file system may be slow, or never answer."""

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
"""How many threads of one hook may be stuck. A thread that is stuck in a file system cannot be stopped."""


class NoThreadError(Exception):
    """The system cannot start a thread now. The work was not begun."""


class FileThreads:
    """Runs the file operations of one hook, each in its own thread."""

    def __init__(self) -> None:
        self._stuck: list[threading.Event] = []
        """An event for each abandoned operation; it is set when the operation has ended."""

    async def run(self, work: Callable[[], T], deadline: float) -> T:
        """The result of `work`.

        Raises `TimeoutError` at the deadline, or at once if too many threads are stuck. Raises `NoThreadError` if no thread
        can be started.
        """
        self._stuck = [ended for ended in self._stuck if not ended.is_set()]
        if len(self._stuck) >= MOST_STUCK:
            raise TimeoutError
        begun, abandoned, ended = threading.Event(), threading.Event(), threading.Event()

        def work_in_thread() -> T:
            begun.set()
            try:
                if abandoned.is_set():
                    raise TimeoutError
                return work()
            finally:
                ended.set()

        try:
            with anyio.CancelScope(deadline=deadline):
                limiter = anyio.CapacityLimiter(math.inf)  # a separate one, so that a stuck thread blocks no other work
                return await anyio.to_thread.run_sync(work_in_thread, abandon_on_cancel=True, limiter=limiter)
            raise TimeoutError
        except RuntimeError as error:
            if begun.is_set():
                raise
            raise NoThreadError(str(error)) from None
        finally:
            abandoned.set()
            if begun.is_set() and not ended.is_set():
                self._stuck.append(ended)
