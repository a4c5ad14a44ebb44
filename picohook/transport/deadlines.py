"""Times calls out. All calls of a channel share one alarm, because a timer for each call would cost too much."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .reactor import Promise, Reactor

NEVER = float("inf")


class Deadlines:
    """Calls `on_timeout` with the calls whose deadline has passed."""

    __slots__ = ("_alarm", "_on_timeout", "_reactor", "_waiting", "next")

    def __init__(
        self,
        reactor: Reactor,
        waiting: Callable[[], Iterable[Promise]],
        on_timeout: Callable[[list[Promise]], None],
    ) -> None:
        self.next = NEVER
        """The time of the alarm: the first deadline, or earlier, if the call that it was set for has ended."""
        self._reactor = reactor
        self._waiting = waiting
        self._on_timeout = on_timeout
        self._alarm = reactor.alarm(self._check)

    def set(self, when: float) -> None:
        """Check the calls at this time, and not at the time set before."""
        self.next = when
        if when < NEVER:
            self._alarm.set(when)

    def _check(self) -> None:
        now, following = self._reactor.now(), NEVER
        late = []
        for call in self._waiting():
            if call.deadline <= now:
                late.append(call)
            else:
                following = min(following, call.deadline)
        self.set(following)
        self._on_timeout(late)

    def close(self) -> None:
        """Stop the alarm, and drop the callbacks."""
        self._alarm.off()
        del self._alarm, self._on_timeout, self._waiting


def shown_seconds(timeout: float) -> str:
    """A timeout in seconds, as it was set. The fraction of a millisecond that passed before the call is rounded away."""
    millis = math.ceil(round(timeout * 1000, 3))
    return f"{float(f'{millis / 1000:.3g}'):g}"
