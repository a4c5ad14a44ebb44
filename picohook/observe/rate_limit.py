"""A limit on how often something may happen."""


class RateLimit:
    """Allows `count` events in a window of time. The first event after a window ends begins the next."""

    def __init__(self, count: int, window: float) -> None:
        self._count = count
        self._window = window
        self._left = 0
        self._ends = float("-inf")

    def take(self, now: float) -> bool:
        """Count one event. Returns whether it is within the limit."""
        if now >= self._ends:
            self._ends, self._left = now + self._window, self._count
        self._left -= 1
        return self._left >= 0
