"""Limits restarts of a hook's process: with growing delays, and no more than `max_starts` starts within a window."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.spec import RestartPolicy

BACKOFF_FIRST = 0.05
BACKOFF_MOST = 5.0
STABLE = 10.0
"""A process that lived for this many seconds was not part of a crash loop."""


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
        """Count one start."""
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
        """Forget all starts and failures."""
        self._starts.clear()
        self.failures = 0
        self.given_up = False
