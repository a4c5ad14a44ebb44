"""The circuit breaker of a remote hook: after several failures in a row, the hook is not asked for a while."""

from __future__ import annotations

from enum import StrEnum

FAILURES = 5
"""How many failures in a row open the breaker."""
WAIT = 10.0
"""Seconds after which an open breaker lets one call try, also if no worker has answered a ping."""


class BreakerState(StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"
    """Every call is made."""
    OPEN = "open"
    """No call is made."""
    TRIAL = "trial"
    """The next call is made. Its end closes the breaker, or opens it again."""


class Breaker:
    """Counts failures in a row. It reads no clock and does no I/O."""

    __slots__ = ("_opened", "_trying", "failures", "state", "why")

    def __init__(self) -> None:
        self.state = BreakerState.CLOSED
        self.failures = 0
        """Failures in a row."""
        self.why = ""
        """The last failure."""
        self._opened = 0.0
        self._trying = False

    def allows(self, now: float) -> bool:
        """Whether a call may be made now. In a trial, this is true once."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now >= self._opened + WAIT:
            self.state = BreakerState.TRIAL
        if self.state is BreakerState.TRIAL and not self._trying:
            self._trying = True
            return True
        return False

    def failed(self, why: str, now: float) -> None:
        """A call failed."""
        self.failures += 1
        self.why = why
        if self.state is BreakerState.TRIAL or self.failures >= FAILURES:
            self.state, self._opened = BreakerState.OPEN, now
        self._trying = False

    def answered(self) -> None:
        """A call was answered: the hook is asked again."""
        self.state = BreakerState.CLOSED
        self.failures = 0
        self._trying = False

    def given_up(self) -> None:
        """A call ended without a result: its caller was cancelled."""
        self._trying = False

    def pinged(self) -> None:
        """A worker is there: the next call may try."""
        if self.state is BreakerState.OPEN:
            self.state = BreakerState.TRIAL
