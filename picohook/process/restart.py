"""Limits starts: restarts of one hook by growing delays and a number in a window, and starts at once of all hooks of a host."""

import random
from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ..model.spec import RestartPolicy
from ..wire.platforms import processors
from .spawn import ProcessServices

if TYPE_CHECKING:
    from ..transport.reactor import Alarm

BACKOFF_FIRST = 0.05
BACKOFF_MOST = 5.0
STABLE = 10.0
"""A process that lived for this many seconds was not part of a crash loop."""
LEAST, FOR_EACH_PROCESSOR = 8, 8
"""The number of starts that run at once."""
TURN = 1.0
"""Seconds after which a turn is over: the hook then waits for something else than a processor, such as a network."""


class RestartBudget:
    """The starts of one hook. All times are seconds on one monotonic clock."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._starts: deque[float] = deque()
        self.failures = 0
        """The number of processes in a row that ended before they were stable."""
        self.given_up = False
        """Whether the hook is not started again until `reset`."""

    def started(self, now: float) -> None:
        self._starts.append(now)

    def ended(self, began: float, now: float) -> None:
        """Note that a process, or an attempt to start one, has ended."""
        self.failures = 0 if now - began >= STABLE else self.failures + 1

    def allows(self, now: float) -> bool:
        """Whether one more start is allowed."""
        while self._starts and self._starts[0] <= now - self._policy.window:
            self._starts.popleft()
        return not self.given_up and len(self._starts) < self._policy.max_starts

    def delay(self) -> float:
        """Seconds to wait before the next start. Up to half is cut off at random, to spread restarts."""
        most: float = min(BACKOFF_FIRST * 2 ** max(self.failures - 1, 0), BACKOFF_MOST)
        return most * random.uniform(0.5, 1.0)  # noqa: S311 - it protects nothing

    def reset(self) -> None:
        self._starts.clear()
        self.failures = 0
        self.given_up = False


class StartTurns:
    """The turns of one host. A start has its turn from the reading of its files to the answer to hello."""

    def __init__(self, host: ProcessServices) -> None:
        self._reactor = host.reactor
        self._free = anyio.Semaphore(max(LEAST, FOR_EACH_PROCESSOR * processors()), fast_acquire=True)
        self._given: dict[Hashable, Alarm] = {}
        """The starts that have their turn. Each alarm ends one."""

    async def take(self, start: Hashable) -> None:
        """Wait until it is the turn of this start. Call `over` afterwards."""
        await self._free.acquire()
        alarm = self._given[start] = self._reactor.alarm(partial(self.over, start))
        alarm.set(self._reactor.now() + TURN)

    def over(self, start: Hashable) -> None:
        """Give the turn of this start to the next one. Does nothing if the turn is over already."""
        alarm = self._given.pop(start, None)
        if alarm is not None:
            alarm.off()
            self._free.release()
