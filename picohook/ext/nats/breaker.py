"""Chooses the worker that a remote hook asks. Breaks the circuit: when no worker answers, the hook is not asked for a while."""

from .subjects import ANY

FAILURES = 5
"""The number of unanswered questions in a row that opens the breaker."""
WAIT = 1.0
"""Seconds after which an open breaker lets questions through again. The first one without an answer opens it anew."""
WARY = 900.0
"""Seconds after a question without an answer in which questions go to the workers that answer."""
EVERY = 50
"""One of this many such questions goes to any worker, which may be a new one, or one that hung and answers again."""


class Breaker:
    """Counts questions that got no answer in time. It reads no clock and does no I/O.

    A question opens the breaker only if no other question got an answer while it waited. So a worker that hangs does not stop
    a hook that other workers answer for. It is not asked either, but for few questions: a server before NATS 2.10 keeps it.
    """

    def __init__(self) -> None:
        self.answers = 0
        """The number of questions that were answered. The caller notes it when it asks."""
        self.failures = 0
        """Questions in a row without an answer."""
        self.why = ""
        """The last failure."""
        self._open_until: float | None = None
        self._wary_until = 0.0
        self._wary = 0
        """The number of questions that were asked while it was wary."""
        self._last: dict[str, int] = {}
        """The workers that answered, with the value of `answers` at the last answer of each. The first is asked next."""

    @property
    def is_open(self) -> bool:
        """Whether questions were refused when one was last tried."""
        return self._open_until is not None

    def allows(self, now: float) -> bool:
        """Whether a question may be asked now."""
        if self._open_until is not None and now >= self._open_until:
            self._open_until, self.failures = None, FAILURES - 1
        return self._open_until is None

    def worker(self, now: float) -> str:
        """The worker to ask next; `ANY` if the server chooses one."""
        if now >= self._wary_until or not self._last:
            return ANY
        self._wary += 1
        if self._wary % EVERY == 0:
            return ANY
        worker = next(iter(self._last))
        self._last[worker] = self._last.pop(worker)
        return worker

    def failed(self, worker: str, why: str, answers: int, now: float) -> None:
        """A question to this worker got no answer. `answers` is the count at the time of the question."""
        if now >= self._wary_until:
            # Whoever gave the last answer before the question is likely to live. Those before it may hang.
            self._last = {name: last for name, last in self._last.items() if last >= answers}
        self.gone(worker)
        self._wary_until = now + WARY
        if answers != self.answers:
            return
        self.failures += 1
        self.why = why
        if self.failures >= FAILURES:
            self._open_until = now + WAIT

    def gone(self, worker: str) -> None:
        """This worker serves the hook no more, or hangs."""
        self._last.pop(worker, None)

    def answered(self, worker: str) -> None:
        """This worker answered a question."""
        self.answers += 1
        self._last[worker] = self.answers
        self.close()

    def close(self) -> None:
        """Questions may be asked again."""
        self.failures = 0
        self._open_until = None
