"""A chain that resumes after a pause: a decision takes the place of the hook that paused."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PicohookError
from ..hooks.base import DecidedHook, Hook
from ..model.decisions import CONTINUE, Approve, Decision, Outcome, Pause
from ..model.payloads import Payload
from ..model.spec import HookSpec
from ..model.stages import Stage
from ..wire import words
from .arrangement import Mounted
from .seat import Seat


@dataclass(frozen=True, slots=True)
class Resumed:
    """The facts that a chain has when it resumes after a pause."""

    hook: str = ""
    """The hook that paused; empty if none did."""
    decision: Decision = CONTINUE
    """The decision in its place."""
    skip: Collection[str] = ()
    """The hooks that have decided. They are not asked again."""

    def require_allowed(self, stage: Stage[Any]) -> None:
        """Raise `PicohookError` if the stage does not allow the decision."""
        decision = self.decision
        if self.hook and (isinstance(decision, Approve | Pause) or decision.action not in stage.actions):
            raise PicohookError(
                f"{type(decision).__name__} is not a valid answer for a hook that paused at {stage.name}"
            )

    def require_taken(self, outcome: Outcome[Any]) -> None:
        """Raise `PicohookError` if the decision could not be applied to the payload."""
        if self.hook and (error := outcome.trail[0].error) is not None:
            raise PicohookError(f"the answer for hook {self.hook} cannot be taken: {error}")

    def seats(
        self, stage: Stage[Any], seats: Sequence[Seat], mounted: Mapping[str, Mounted]
    ) -> tuple[tuple[Seat, ...], tuple[Seat, ...]]:
        """Returns the seats that are still asked, and the guards that have decided already. Raises as `require_allowed`."""
        self.require_allowed(stage)
        left = tuple(seat for seat in seats if seat.name not in self.skip and seat.name != self.hook)
        guards = tuple(seat for seat in seats if seat.guard and (seat.name in self.skip or seat.name == self.hook))
        if not self.hook:
            return left, guards
        spec = mounted[self.hook].hook.spec if self.hook in mounted else HookSpec(name=self.hook)
        answer = Seat(DecidedHook(spec, self.decision), math.inf)
        answer.guard = False  # about a changed payload, the guard itself is asked again
        return (answer, *left), guards


def decided_by(
    outcome: Outcome[Any], payload: Payload, hooks: Iterable[Hook], before: Iterable[str] = ()
) -> frozenset[str]:
    """Returns the hooks that have decided about this payload, and those that had decided `before`.

    Pauses before the one of the outcome are answered: all, if it is no pause. If a pause came before guards were asked about
    a changed payload, their decision no longer counts.
    """
    paused = outcome.action == words.PAUSE
    asked = set(before)
    is_answered = True
    for entry in outcome.trail:
        is_answered = is_answered and not (paused and entry.hook == outcome.hook)
        if not entry.skipped and (is_answered or entry.action != words.PAUSE):
            asked.add(entry.hook)
    changed = paused and outcome.payload is not payload
    return frozenset(asked - {hook.name for hook in hooks if changed and hook.spec.guard})
