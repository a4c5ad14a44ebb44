"""How hooks are asked: `run_chain` is the only loop over them, `ask` the only place where a failure is caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import anyio

from . import policy, wire
from .decisions import (
    Approve,
    Continue,
    Decision,
    Modify,
    Outcome,
    Respond,
    Retry,
    TrailEntry,
)
from .errors import EncodeError, HookReplyError, HookTimeoutError
from .hooks.base import Encoded, Hook, Question
from .models import Payload
from .spec import RespondRule
from .stages import restrict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .stages import Stage

P = TypeVar("P", bound=Payload)

PROGRESS_FACTOR = 10
PROGRESS_MOST = 600.0
"""A hook that shows progress may take ten times its timeout, and so many seconds at most."""


class Seat(NamedTuple):
    """A hook's place in a stage's chain."""

    hook: Hook
    timeout: float


@dataclass(slots=True)
class Asked(Generic[P]):
    """What came of asking one hook."""

    decision: Decision
    payload: P
    entry: TrailEntry
    result: Any = None


async def run_chain(
    stage: Stage[P],
    seats: Sequence[Seat],
    encoded: Encoded[P],
    *,
    clock: Callable[[], float],
    budget: float,
    edited: Callable[[Hook, P, P], None] | None = None,
) -> Outcome[P]:
    """Ask the hooks of a stage, and conclude.

    Interceptors are asked one after another, each about what the one before it left, until one ends the chain or the
    budget (in seconds) is used up; `edited` is told which hook changed what. Approvers are asked all at once, have no
    budget but their own timeouts, and must all say yes.
    """
    if stage.approves:
        return await _run_approval(stage, seats, encoded, clock)
    end = clock() + budget
    trail: list[TrailEntry] = []
    first = encoded.payload
    for seat in seats:
        asked = await ask(stage, seat, encoded, clock, end)
        trail.append(asked.entry)
        if asked.payload is not encoded.payload:
            if edited is not None:
                edited(seat.hook, encoded.payload, asked.payload)
            encoded = Encoded(asked.payload)
        decision = asked.decision
        if not isinstance(decision, Continue | Modify):
            return Outcome(
                stage.name,
                decision.action,
                encoded.payload,
                reason=decision.reason,
                trail=tuple(trail),
                result=asked.result,
                feedback=decision.feedback if isinstance(decision, Retry) else "",
                hook=seat.hook.name,
            )
    action = wire.CONTINUE if encoded.payload is first else wire.MODIFY
    return Outcome(stage.name, action, encoded.payload, trail=tuple(trail))


async def _run_approval(
    stage: Stage[P], seats: Sequence[Seat], encoded: Encoded[P], clock: Callable[[], float]
) -> Outcome[P]:
    answers: list[Asked[P] | None] = [None] * len(seats)
    if seats:
        encoded.params  # noqa: B018 - a payload that is no JSON is the caller's mistake, raised before anybody is asked
    if len(seats) == 1:
        answers[0] = await ask(stage, seats[0], encoded, clock)
    elif seats:
        async with anyio.create_task_group() as tasks:

            async def one(place: int, seat: Seat) -> None:
                answers[place] = asked = await ask(stage, seat, encoded, clock)
                if not isinstance(asked.decision, Approve):
                    tasks.cancel_scope.cancel()

            for place, seat in enumerate(seats):
                tasks.start_soon(one, place, seat)
    trail = tuple(
        TrailEntry(seat.hook.name, "", error="not waited for: another approver said no")
        if asked is None
        else asked.entry
        for seat, asked in zip(seats, answers, strict=True)
    )
    for seat, asked in zip(seats, answers, strict=True):
        if asked is not None and not isinstance(asked.decision, Approve):
            return Outcome(
                stage.name,
                wire.DENY,
                encoded.payload,
                reason=asked.decision.reason,
                trail=trail,
                approved=False,
                hook=seat.hook.name,
            )
    return Outcome(stage.name, wire.CONTINUE, encoded.payload, trail=trail, approved=all(answers))


async def ask(
    stage: Stage[P], seat: Seat, encoded: Encoded[P], clock: Callable[[], float], end: float = float("inf")
) -> Asked[P]:
    """Ask one hook, by one absolute deadline. It always comes to a decision; only the caller's own mistakes are raised."""
    hook, timeout = seat
    begun = clock()
    deadline = min(begun + timeout, end)
    limit = min(begun + min(timeout * PROGRESS_FACTOR, PROGRESS_MOST), end)
    payload = encoded.payload
    error = result = None
    try:
        if begun >= end:
            raise HookTimeoutError("the time for the whole chain was used up before it was asked")  # noqa: TRY301
        decision = await hook.handle(Question(stage, encoded, deadline, limit))
        if not isinstance(decision, Continue):
            payload, result, error = _apply(stage, hook, encoded.payload, decision)
    except EncodeError:
        raise
    except Exception as failure:  # noqa: BLE001 - a hook can fail in any way; none of them may reach the agent
        hook.failures += 1
        error = policy.describe(failure)
        decision = policy.on_failure(stage, hook.name, hook.spec.on_failure, error)
    entry = TrailEntry(hook.name, decision.action, clock() - begun, error, decision.notes)
    return Asked(decision, payload, entry, result)


def _apply(stage: Stage[P], hook: Hook, payload: P, decision: Decision) -> tuple[P, Any, str | None]:
    """What a decision makes of the payload, the result that it gives, and what of it was not allowed."""
    if stage.approves:
        return payload, None, None
    if decision.action not in stage.actions:
        raise HookReplyError(f"{decision.action} is no answer at {stage.name}")
    if isinstance(decision, Respond):
        if hook.spec.respond is RespondRule.FORBID:
            raise HookReplyError("it answered for a tool, and its `respond` is forbid")
        assert stage.result is not None
        edited = stage.edit(payload, decision.changes)
        return edited, stage.result(edited, decision.result), None
    if isinstance(decision, Modify):
        edited, refused = restrict(payload, stage.edit(payload, decision.changes, decision.patch), hook.spec.may_edit)
        return edited, None, f"it may not edit {', '.join(refused)}: left as it was" if refused else None
    return payload, None, None
