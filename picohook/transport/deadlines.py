"""Times calls out. All calls of a channel share one alarm, because a timer for each call would cost too much."""

import math
from collections.abc import Callable
from typing import Any, Protocol

from .reactor import Promise, Reactor


class Calls(Protocol):
    """Calls that wait for replies."""

    @property
    def waiting(self) -> list[Any]:
        """All calls that wait, oldest first."""


NEVER = float("inf")
PAUSE = 0.02
"""The least seconds between two rings, each of which looks at all calls. A call may time out so much later."""


class Deadlines:
    """Calls `on_timeout` with the calls whose deadline has passed, oldest first.

    Most calls end long before their deadline, so a new call only moves the alarm.
    """

    __slots__ = ("_alarm", "_calls", "_on_timeout", "_quiet_until", "_reactor", "next")

    def __init__(self, reactor: Reactor, calls: Calls, on_timeout: Callable[[list[Promise]], None]) -> None:
        self.next = NEVER
        """The time of the next ring. Calls with an earlier deadline have to be added; others need not be."""
        self._quiet_until = 0.0
        self._reactor = reactor
        self._calls = calls
        self._on_timeout = on_timeout
        self._alarm = reactor.alarm(self._check)

    def add(self, call: Promise) -> None:
        """Add a call whose deadline is earlier than `next`."""
        self._ring_at(call.deadline)

    def _ring_at(self, first: float) -> None:
        self.next = max(first, self._quiet_until)
        if self.next < NEVER:
            self._alarm.set(self.next)

    def _check(self) -> None:
        now, late, first = self._reactor.now(), [], NEVER
        for call in self._calls.waiting:  # it may have a later deadline by now
            if call.deadline <= now:
                late.append(call)
            elif call.deadline < first:
                first = call.deadline
        self._quiet_until = now + PAUSE
        self._ring_at(first)
        self._on_timeout(late)

    def close(self) -> None:
        """Stop the alarm, and drop the callbacks."""
        self._alarm.off()
        del self._alarm, self._on_timeout, self._calls


def no_answer(timeout: float) -> str:
    """Returns the text of a time-out, with its seconds rounded to milliseconds: a fraction passes before the call."""
    millis = math.ceil(round(timeout * 1000, 3))
    return f"no answer within {float(f'{millis / 1000:.3g}'):g} s"
