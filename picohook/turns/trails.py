"""The trails of a result: what hooks did at each stage on the way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model.decisions import Outcome
    from ..model.trail import StageTrail

    Took = Callable[[Outcome[Any]], None]


def ignore(outcome: Outcome[Any]) -> None:
    """Take an outcome, and do nothing."""


class Trails:
    """Collects the trails of outcomes, and passes each outcome on."""

    def __init__(self, took: Took = ignore) -> None:
        self.all: list[StageTrail] = []
        self._took = took

    def take(self, outcome: Outcome[Any]) -> None:
        """Add the trail of an outcome."""
        self.all.append(outcome.stage_trail)
        self._took(outcome)
