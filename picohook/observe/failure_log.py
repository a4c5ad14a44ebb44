"""Logs the failures of a hook: each cause at once, then the number of repetitions, and the recovery."""

from .log import Log

WINDOW = 60.0
"""Seconds after a logged failure in which its repetitions are only counted."""
TEXTS = 5
"""The number of different texts of one kind of failure that a window logs. A hook may put a number or a time into each."""


class _Streak:
    """One kind of failure at one stage."""

    def __init__(self, stage: str, kind: str) -> None:
        self.stage, self.kind = stage, kind
        self.ends = self.recovery_ends = float("-inf")
        """The ends of the windows that began with the logged failure and with the logged recovery."""
        self.texts: set[str] = set()
        self.left_out = 0
        """Failures that are not logged yet."""
        self.why = self.counted_as = ""


class FailureLog:
    """The failures of one hook.

    A failure is logged at once, unless the same failure was logged within the last minute. Repetitions are counted, and the
    count is logged before the next failure that is logged, when the hook answers again, and when it ends.
    """

    def __init__(self) -> None:
        self.failing: set[str] = set()
        """The stages whose last question failed."""
        self.last: str | None = None
        """The cause of its last failure."""
        self._log: Log | None = None
        self._streaks: dict[tuple[str, str], _Streak] = {}

    def log_to(self, log: Log) -> None:
        """Set the log. Without a log, failures are only counted."""
        self._log = log

    def add(self, stage: str, kind: str, why: str, counted_as: str, now: float) -> None:
        """Add a failure at a stage: its kind, its cause in words, and the action that it counted as."""
        self.last = why
        self.failing.add(stage)
        streak = self._streaks.setdefault((stage, kind), _Streak(stage, kind))
        if now >= streak.ends:
            streak.ends = now + WINDOW
            streak.texts.clear()
        new = why not in streak.texts and len(streak.texts) < TEXTS
        if new:
            self._sum_up(streak)
            streak.texts.add(why)
        else:
            streak.left_out += 1
        streak.why, streak.counted_as = why, counted_as
        if new:
            self._warn("failed", streak)

    def answered(self, stage: str, now: float) -> None:
        """Note an answer at this stage. Call it at least for the first answer after a failure."""
        if stage not in self.failing:
            return
        self.failing.discard(stage)
        for streak in self._streaks.values():
            if streak.stage == stage and now >= streak.recovery_ends and streak.why:
                streak.recovery_ends = now + WINDOW
                self._sum_up(streak)
                if self._log is not None:
                    self._log.info("answers again", stage=stage, cause=streak.kind)
                streak.why = ""

    def close(self) -> None:
        """Log the failures that were only counted. Call it when the hook ends."""
        for streak in self._streaks.values():
            self._sum_up(streak)

    def _sum_up(self, streak: _Streak) -> None:
        if streak.left_out:
            times, streak.left_out = streak.left_out, 0
            self._warn("failed again", streak, times=times)

    def _warn(self, event: str, streak: _Streak, **more: int) -> None:
        if self._log is not None:
            about = {"stage": streak.stage, "cause": streak.kind, "counted_as": streak.counted_as}
            self._log.warning(event, **about, **more, why=streak.why)
