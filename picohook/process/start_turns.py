"""Paces the starts of a host's processes, so that each soon gets what it needs of the processors.

A start has its turn from the reading of its files to the answer to hello. A few have theirs at once. While a processor is free,
more do. While turns are short, more do too: a launcher starts many at once in less time than one after another. A hook that
waits for something else, such as a network, does not hold up others: its turn is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import anyio

from ..wire.platforms import processor_is_free, processors, wants_processor

if TYPE_CHECKING:
    from ..transport.reactor import Alarm, Reactor

LEAST, FOR_EACH_PROCESSOR = 8, 4
"""How many starts have their turn at once."""
SHORT, SHORT_MOST = 0.1, 32
"""A turn of fewer seconds lets one more start have its turn at once, up to so many. A longer turn sets this back."""
LOOK, MORE = 0.01, 8
"""Seconds between two looks at the processors, and how many more starts get their turn if one is free."""
TURN_MOST = 5.0
"""Seconds after which a start no longer holds up others, whatever it does."""


class Start(Protocol):
    """One start of a process."""

    pid: int
    """Its pid; 0 until it runs."""


class StartTurns:
    """The turns of one host."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._least = self._at_once = max(LEAST, FOR_EACH_PROCESSOR * processors())
        self._given: dict[Start, float] = {}
        """The starts that have their turn, and since when."""
        self._waiting: dict[Start, anyio.Event] = {}
        self._alarm: Alarm | None = None
        """Rings for the next look, while starts wait."""

    async def take(self, start: Start) -> None:
        """Wait until it is the turn of this start. Call `over` afterwards."""
        if len(self._given) < self._at_once:
            self._given[start] = self._reactor.now()
            return
        if self._alarm is None:
            self._alarm = self._reactor.alarm(self._look)
            self._alarm.set(self._reactor.now() + LOOK)
        given = self._waiting[start] = anyio.Event()
        await given.wait()

    def over(self, start: Start) -> None:
        """Give the turn of this start to the next one. Does nothing if the turn is over already."""
        self._waiting.pop(start, None)
        since = self._given.pop(start, None)
        if since is not None:
            short = self._reactor.now() - since < SHORT
            self._at_once = max(self._least, min(self._at_once + 1, SHORT_MOST) if short else 0)
            self._give(self._at_once)
        self._rest()

    def _give(self, most: int) -> None:
        """Give their turns to the starts that wait longest, until so many have theirs."""
        while self._waiting and len(self._given) < most:
            start = next(iter(self._waiting))
            self._given[start] = self._reactor.now()
            self._waiting.pop(start).set()

    def _look(self) -> None:
        now = self._reactor.now()
        for start, since in [*self._given.items()]:
            if now - since >= TURN_MOST or (start.pid and not wants_processor(start.pid)):
                del self._given[start]
        self._give(max(self._at_once, len(self._given) + MORE if processor_is_free() else 0))
        if self._waiting and self._alarm is not None:
            self._alarm.set(now + LOOK)
        self._rest()

    def _rest(self) -> None:
        """Take no more looks if no start waits. The alarm goes, which would keep this object alive."""
        if self._alarm is not None and not self._waiting:
            self._alarm.off()
            self._alarm = None
