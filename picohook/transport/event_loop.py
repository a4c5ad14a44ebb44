"""The parts that differ between asyncio and trio: the reactor, and cancellations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from .reactor import Reactor


def current_reactor() -> Reactor:
    """The reactor of the event loop that runs this code. Raises `RuntimeError` if none does."""
    if "asyncio" in sys.modules:  # it is slow to import, and cannot run if it was not imported
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            from .on_asyncio import AsyncioReactor  # slow to import

            return AsyncioReactor()
    from .on_trio import TrioReactor  # slow to import

    return TrioReactor()


def is_cancellation(error: BaseException) -> bool:
    """Whether this is a cancellation of the running task, or a group with one, or with the end of the program.

    A function also raises a cancellation if it awaits a task that was cancelled.
    """
    kind = anyio.get_cancelled_exc_class()
    group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
    if group.subgroup((KeyboardInterrupt, GeneratorExit)):
        return True
    if not group.subgroup(kind):
        return False
    import asyncio  # slow to import

    task = asyncio.current_task() if kind is asyncio.CancelledError else None
    return task is None or task.cancelling() > 0
