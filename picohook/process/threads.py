"""Runs file operations in threads, off the event loop: a file system may be slow, or never answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MOST_STUCK = 4
"""The number of threads of one hook that may be stuck. A thread that is stuck in a file system cannot be stopped."""


class NoThreadError(Exception):
    """The system cannot start a thread now. The work was not begun."""


@dataclass(slots=True)
class _Progress:
    """The progress of an operation."""

    begun: bool = False
    abandoned: bool = False
    ended: bool = False


class FileThreads:
    """Runs the file operations of one hook, each in its own thread."""

    def __init__(self) -> None:
        self._stuck: list[_Progress] = []
        """The abandoned operations."""
        self._limiter = anyio.CapacityLimiter(math.inf)  # not the default one: a stuck thread blocks no other work

    async def run(self, work: Callable[[], T], deadline: float) -> T:
        """The result of `work`.

        Raises `TimeoutError` at the deadline, or at once if too many threads are stuck. Raises `NoThreadError` if no thread
        can be started.
        """
        self._stuck = [operation for operation in self._stuck if not operation.ended]
        if len(self._stuck) >= MOST_STUCK:
            raise TimeoutError
        progress = _Progress()

        def work_in_thread() -> T:
            progress.begun = True
            try:
                if progress.abandoned:
                    raise TimeoutError
                return work()
            finally:
                progress.ended = True

        try:
            with anyio.CancelScope(deadline=deadline):
                return await anyio.to_thread.run_sync(work_in_thread, abandon_on_cancel=True, limiter=self._limiter)
            raise TimeoutError
        except RuntimeError as error:
            if progress.begun:
                raise
            raise NoThreadError(str(error)) from None
        finally:
            progress.abandoned = True
            if progress.begun and not progress.ended:
                self._stuck.append(progress)
