"""A chain: the hooks of one stage, asked one after another. `run_chain` is the only loop over hooks."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from ..model.decisions import CONTINUE, Continue, Modify, Outcome, Retry
from ..model.encoded import CHANGED
from ..model.payloads import Payload
from ..model.spec import SYSTEM_SHARE
from ..wire import words
from .approval import NEVER, run_approval
from .ask import ask
from .trail import not_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..hooks.base import Hook
    from ..listeners.listener import Account
    from ..model.decisions import Decision
    from ..model.encoded import Encoded
    from ..model.stages import Stage
    from ..model.trail import OutcomeAction, TrailEntry
    from .seat import Seat

P = TypeVar("P", bound=Payload)

_PASSES = (Continue, Modify)
"""After these decisions the next hook is asked."""


async def run_chain(  # noqa: PLR0917 - by position: it is called for every question
    stage: Stage[P],
    seats: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    budget: float,
    edited: Callable[[Hook, P, P], None] | None = None,
    account: Account[P] | None = None,
    decided: Sequence[Seat] = (),
    within: float = NEVER,
) -> Outcome[P]:
    """Ask the hooks of a stage, and return the outcome.

    Interceptors are asked one after another, each about the payload that the one before it left, until one ends the chain or
    the budget is used up. The budget is in seconds, and does not include the time that a person takes. `edited` is called with
    the hook and the payload before and after each edit, and `account` with each question and answer.

    The system's hooks together have half of the time that is left when the first of them is asked. So slow ones cannot keep
    other hooks from being asked, whose failure may let the call continue.

    Guards are asked again if the final payload is not the one they saw. `decided` are guards that saw it before this chain.
    Where there are guards, a payload that was changed in place meanwhile is denied.

    Approvers are asked all at once, and must all say yes. Their time limits are their own timeouts, and `within`: seconds in
    which the chain ends in any case.
    """
    if stage.approves:
        return await run_approval(stage, seats, encoded, clock, account, clock() + within)
    end = clock() + min(budget, within)
    system_end = NEVER
    first = encoded.payload
    trail: list[TrailEntry] = []
    guards: list[tuple[Seat, P | None]] = [*zip(decided, repeat(first), strict=False)] if decided else []
    for seat in seats:
        if seat.filter is None or seat.wants(encoded.payload):
            limit = NEVER if seat.waits_for_person else end
            if seat.is_system:
                limit = system_end = min(system_end, end - (end - clock()) * SYSTEM_SHARE)
            decision, left, entry, result = await ask(stage, seat, encoded, clock, limit, account)
            trail.append(entry)
            if seat.waits_for_person:
                end += entry.duration
            if left is not encoded and edited is not None:
                edited(seat.hook, encoded.payload, left.payload)
            if decision is not CONTINUE and not isinstance(decision, _PASSES):
                return _ended(stage, seat, decision, left.payload, result, trail, encoded.payload)
            encoded = left
            seen: P | None = encoded.payload
        else:
            trail.append(not_asked(stage, seat))
            seen = None
        if seat.guard:
            guards.append((seat, seen))
    if guards:
        ended = await _ask_guards(stage, guards, encoded, clock, end, account, trail)
        if ended is not None:
            return ended
    outcome = Outcome(
        stage.name, words.CONTINUE if encoded.payload is first else words.MODIFY, encoded.payload, "", tuple(trail)
    )
    outcome.asked = encoded
    return outcome


async def _ask_guards(  # noqa: PLR0917 - likewise
    stage: Stage[P],
    guards: Sequence[tuple[Seat, P | None]],
    encoded: Encoded[P],
    clock: Callable[[], float],
    end: float,
    account: Account[P] | None,
    trail: list[TrailEntry],
) -> Outcome[P] | None:
    """Ask guards again if they saw another payload, the system's last, so that they cannot take the others' time.

    Returns an outcome if one ends the chain, or if the payload was changed in place.
    """
    for seat, seen in sorted(guards, key=_is_system):
        if seen is not encoded.payload and seat.wants(encoded.payload):
            decision, left, entry, result = await ask(stage, seat, encoded, clock, end, account, True)
            trail.append(entry)
            if not isinstance(decision, _PASSES):
                return _ended(stage, seat, decision, left.payload, result, trail)
    if encoded.intact:
        return None
    denied: OutcomeAction = words.DENY if words.DENY in stage.actions else words.ABORT_TURN
    return Outcome(stage.name, denied, encoded.payload, CHANGED, tuple(trail))


def _is_system(guard: tuple[Seat, P | None]) -> bool:
    return guard[0].is_system


def _ended(  # noqa: PLR0917 - likewise
    stage: Stage[P],
    seat: Seat,
    decision: Decision,
    payload: P,
    result: Any,
    trail: list[TrailEntry],
    asked_about: P | None = None,
) -> Outcome[P]:
    feedback = decision.feedback if isinstance(decision, Retry) else ""
    # By position: an object made by keywords costs twice as much.
    return Outcome(
        stage.name,
        decision.action,
        payload,
        decision.reason,
        tuple(trail),
        None,
        result,
        feedback,
        seat.name,
        asked_about,
    )
