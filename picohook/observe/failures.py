"""What is said about a hook that fails: each cause at once, after that its count, and the end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log

WINDOW = 60.0
"""Seconds in which a failure that was logged is counted when it happens again, and not logged again."""
TEXTS = 5
"""Different texts of one kind of failure that are logged in one window: a hook may put a number or a time into each."""


class _Streak:
    """One kind of failure at one stage."""

    __slots__ = ("counted_as", "ends", "left_out", "recovery_ends", "texts", "times", "why")

    def __init__(self) -> None:
        self.ends = self.recovery_ends = float("-inf")
        """When the window ends in which it, or that it is over, was logged."""
        self.texts: set[str] = set()
        self.times = 0
        """Failures in this window."""
        self.left_out = 0
        """Failures that no line tells of yet."""
        self.why = self.counted_as = ""


class Failures:
    """What one hook failed at.

    A failure is logged at once, unless the same was logged within the last minute. Then it is counted, and the tenth, the
    hundredth, the thousandth are logged with the count. What was counted is also logged when the hook answers again, and
    when it ends. No timer is needed, and a hook that does not fail pays nothing.
    """

    __slots__ = ("_log", "_streaks", "failing", "last")

    def __init__(self) -> None:
        self.failing: set[str] = set()
        """The stages at which its last answer was a failure."""
        self.last: str | None = None
        """Why it failed last."""
        self._log: Log | None = None
        self._streaks: dict[tuple[str, str], _Streak] = {}

    def log_to(self, log: Log) -> None:
        """Where it is said; without a log, failures are only remembered."""
        self._log = log

    def add(self, stage: str, kind: str, why: str, counted_as: str, now: float) -> None:
        """It failed at this stage: the kind, the cause in words, and the action that the failure counted as."""
        self.last = why
        self.failing.add(stage)
        streak = self._streaks.setdefault((stage, kind), _Streak())
        if now >= streak.ends:
            streak.ends, streak.times = now + WINDOW, 0
            streak.texts.clear()
        streak.times += 1
        new = why not in streak.texts and len(streak.texts) < TEXTS
        if new:
            self._sum_up(stage, kind, streak)
            streak.texts.add(why)
        streak.why, streak.counted_as = why, counted_as
        if new:
            self._warn("failed", stage, kind, streak)
            return
        streak.left_out += 1
        if _is_round(streak.times):
            self._sum_up(stage, kind, streak)

    def answered(self, stage: str, now: float) -> None:
        """It answered at this stage. To be called at least for the first answer after a failure."""
        if stage not in self.failing:
            return
        self.failing.discard(stage)
        for (at, kind), streak in self._streaks.items():
            if at == stage and now >= streak.recovery_ends and streak.why:
                streak.recovery_ends = now + WINDOW
                self._sum_up(stage, kind, streak)
                if self._log is not None:
                    self._log.info("answers again", stage=stage, cause=kind)
                streak.why = ""

    def close(self) -> None:
        """It ends: what was only counted is logged."""
        for (stage, kind), streak in self._streaks.items():
            self._sum_up(stage, kind, streak)

    def _sum_up(self, stage: str, kind: str, streak: _Streak) -> None:
        if streak.left_out:
            times, streak.left_out = streak.left_out, 0
            self._warn("failed again", stage, kind, streak, times=times)

    def _warn(self, event: str, stage: str, kind: str, streak: _Streak, **more: int) -> None:
        if self._log is not None:
            about = {"stage": stage, "cause": kind, "counted_as": streak.counted_as}
            self._log.warning(event, **about, **more, why=streak.why)


def _is_round(count: int) -> bool:
    """Whether it is 10, 100, 1000, ..."""
    return count >= 10 and str(count).rstrip("0") == "1"  # noqa: PLR2004
