"""Lets only a few processes of a host start at once, so that each soon has what it needs of the processor.

A start that waits for something else, such as a network, gives its turn to the next one. So slow starts do not add up.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from ..wire.platforms import wants_processor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..transport.reactor import Reactor

LEAST, FOR_EACH_PROCESSOR = 8, 4
"""How many processes start at once."""
LOOK = 0.005
"""Seconds between two looks at whether a process still wants the processor."""
TURN_MOST = 1.0
"""Seconds after which a start no longer holds up others, whatever it does."""


class StartTurns:
    """The turns of one host."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._free = anyio.Semaphore(max(LEAST, FOR_EACH_PROCESSOR * (os.cpu_count() or 1)))

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """A turn that is over at the end of this block at the latest."""
        turn = Turn(self._reactor, self._free)
        try:
            yield turn
        finally:
            turn.over()


class Turn:
    """The turn of one start. It may be taken, and is over, once."""

    def __init__(self, reactor: Reactor, free: anyio.Semaphore) -> None:
        self._reactor = reactor
        self._free = free
        self._alarm = reactor.alarm(self._look)
        self._taken = False
        self._until = 0.0
        self._pid = 0

    async def take(self) -> None:
        """Wait for the turn."""
        await self._free.acquire()
        self._taken = True
        self._until = self._reactor.now() + TURN_MOST
        self._alarm.set(self._until)

    def runs(self, pid: int) -> None:
        """Note that the process runs. The turn is over when it no longer wants the processor."""
        if self._taken:
            self._pid = pid
            self._alarm.set(self._reactor.now() + LOOK)

    def over(self) -> None:
        """Let the next start have its turn."""
        if self._taken:
            self._taken = False
            self._alarm.off()
            self._free.release()

    def _look(self) -> None:
        now = self._reactor.now()
        if now >= self._until or not wants_processor(self._pid):
            self.over()
        else:
            self._alarm.set(now + LOOK)
