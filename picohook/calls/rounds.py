"""The rounds of a turn: hooks may ask for another one with feedback, as often as the retry limit allows."""

from ..engine.asker import Asker
from ..errors import PicohookError
from ..model.payloads import Payload


class RetryLimitError(PicohookError):
    """Hooks asked for more rounds than the retry limit allows."""


class Rounds:
    """Counts the rounds that hooks have asked for."""

    def __init__(self, host: Asker, limit: int, used: int = 0) -> None:
        self.used = used
        self._host = host
        self._limit = limit

    def spend(self, feedback: str, about: Payload) -> None:
        """Count one more round. Raises `RetryLimitError` if the limit is reached already."""
        limit = self._limit
        if self.used >= limit:
            last = f"; the last one: {feedback}" if feedback.strip() else ""
            raise RetryLimitError(f"hooks asked for another round more than {limit} times{last}")
        self.used += 1
        event = {"Attempt": self.used, "MaxRetries": limit, "Reason": feedback, "Error": "", "Backoff": 0}
        self._host.emit("llm_retry", event, about=about)
