"""A seat: one hook in the chain of one stage, with its timeout and its filter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..hooks.base import DecidedHook
from ..model.spec import HookSpec
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Decision
    from ..model.filters import Filter
    from ..model.payloads import Payload
    from ..model.stages import Stage
    from ..observe.metrics import StageMetrics
    from .tasks import Mounted

PROGRESS_FACTOR = 10
PROGRESS_MOST = 600.0
"""A hook that shows progress may take ten times its timeout, but no more than this many seconds."""


def longest(timeout: float) -> float:
    """The seconds that a question with this timeout may take if the hook shows progress."""
    return max(timeout, min(timeout * PROGRESS_FACTOR, PROGRESS_MOST))


class Seat:
    """A hook's place in a stage's chain."""

    __slots__ = (
        "fallback",
        "figures",
        "filter",
        "guard",
        "hook",
        "is_system",
        "longest",
        "name",
        "timeout",
        "waits_for_person",
    )

    def __init__(
        self,
        hook: Hook,
        timeout: float,
        filter: Filter | None = None,  # noqa: A002 - what it is
        fallback: Seat | None = None,
    ) -> None:
        self.hook = hook
        self.name = hook.name
        self.timeout = timeout
        self.longest = longest(timeout)
        """Seconds that the hook may take if it shows progress."""
        self.filter = filter
        self.fallback = fallback
        """The seat of the hook that decides if this one fails."""
        self.figures: StageMetrics | None = None
        """The counters of its answers at this stage."""
        self.guard = hook.spec.guard
        self.is_system = hook.spec.layer == "system"
        """Whether it may take only a part of the chain's time."""
        self.waits_for_person = hook.waits_for_person

    def wants(self, payload: Payload) -> bool:
        """Whether the hook is asked about this payload."""
        return self.filter is None or self.filter.matches(payload)

    def may_want(self, payload: Payload) -> bool:
        """Whether the hook may be asked about this payload when it has other content."""
        return self.filter is None or bool(self.filter.when) or self.filter.matches(payload)


def seats_named(name: str, seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Returns the seat of one hook, or nothing if it has none here."""
    return tuple([seat for seat in seats if seat.name == name])


def seats_after_pause(
    stage: Stage[Any],
    seats: Sequence[Seat],
    mounted: Mapping[str, Mounted],
    answered: tuple[str, Decision] | None,
    skip: Collection[str],
) -> tuple[tuple[Seat, ...], tuple[Seat, ...]]:
    """Returns the seats that are still asked after a pause, and the guards that have decided already.

    `answered` is the hook that paused, and the answer in its place. Raises `PicohookError` for an answer that the stage does
    not allow.
    """
    left = tuple(seat for seat in seats if seat.name not in skip)
    paused = "" if answered is None else answered[0]
    guards = tuple(seat for seat in seats if seat.guard and (seat.name in skip or seat.name == paused))
    if answered is None:
        return left, guards
    decision = answered[1]
    if decision.action not in stage.actions or decision.action == words.PAUSE:
        raise PicohookError(f"{type(decision).__name__} is not a valid answer for a hook that paused at {stage.name}")
    spec = mounted[paused].hook.spec if paused in mounted else HookSpec(name=paused)
    answer = Seat(DecidedHook(spec, decision), math.inf)
    answer.guard = False  # about a changed payload, the guard itself is asked again
    return (answer, *(seat for seat in left if seat.name != paused)), guards
