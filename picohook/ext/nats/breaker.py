"""The circuit breaker of a remote hook: when no worker answers, the hook is not asked for a while."""

from __future__ import annotations

FAILURES = 5
"""The number of unanswered questions in a row that opens the breaker."""
WAIT = 1.0
"""Seconds after which an open breaker lets questions through again. The first one without an answer opens it anew."""


class Breaker:
    """Counts questions that got no answer in time. It reads no clock and does no I/O.

    A question counts only if no other question got an answer while it waited. So a worker that hangs does not stop a hook that
    other workers answer for.
    """

    __slots__ = ("_open_until", "answers", "failures", "why")

    def __init__(self) -> None:
        self.answers = 0
        """The number of questions that were answered. The caller notes it when it asks."""
        self.failures = 0
        """Questions in a row without an answer."""
        self.why = ""
        """The last failure."""
        self._open_until: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether questions were refused when one was last tried."""
        return self._open_until is not None

    def allows(self, now: float) -> bool:
        """Whether a question may be asked now."""
        if self._open_until is not None and now >= self._open_until:
            self._open_until, self.failures = None, FAILURES - 1
        return self._open_until is None

    def failed(self, why: str, answers: int, now: float) -> None:
        """A question got no answer. `answers` had this value when it was asked."""
        if answers != self.answers:
            return
        self.failures += 1
        self.why = why
        if self.failures >= FAILURES:
            self._open_until = now + WAIT

    def answered(self) -> None:
        """A question was answered."""
        self.answers += 1
        self.failures = 0
        self._open_until = None
