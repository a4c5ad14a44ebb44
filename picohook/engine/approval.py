"""Approval: all approvers are asked at once, and all must say yes. A failure is a denial: see `failure_policy.on_failure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import anyio

from ..model.decisions import Approve, Outcome
from ..model.payloads import Payload
from ..wire import words
from .ask import ask
from .trail import not_asked, not_waited_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..listeners.listener import Account
    from ..model.encoded import Encoded
    from ..model.stages import Stage
    from .ask import Answered
    from .seat import Seat

P = TypeVar("P", bound=Payload)

NEVER = float("inf")


async def run_approval(  # noqa: PLR0917 - by position, as `run_chain`
    stage: Stage[P],
    seats: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    account: Account[P] | None,
    end: float = NEVER,
) -> Outcome[P]:
    """Ask all approvers whose filters match the call. After the first denial, the others are not waited for."""
    approvers = [seat for seat in seats if seat.wants(encoded.payload)]
    answers = await _ask_all(stage, approvers, encoded, clock, account, end) if approvers else {}
    trail = tuple(
        not_asked(stage, seat)
        if seat not in approvers
        else answers[seat.name][2]
        if seat.name in answers
        else not_waited_for(seat)
        for seat in seats
    )
    for seat in approvers:
        if seat.name not in answers:
            continue
        decision, _, _, result = answers[seat.name]
        if not isinstance(decision, Approve):
            reason, hook = decision.reason, seat.name
            return Outcome(
                stage.name, words.DENY, encoded.payload, reason, trail, approved=False, result=result, hook=hook
            )
    approved = len(answers) == len(approvers)
    outcome = Outcome(stage.name, words.CONTINUE, encoded.payload, "", trail, approved=approved)
    outcome.asked = encoded
    return outcome


async def _ask_all(  # noqa: PLR0917 - likewise
    stage: Stage[P],
    approvers: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    account: Account[P] | None,
    end: float,
) -> dict[str, Answered[P]]:
    """Returns the answers by hook name, without those that came after a denial."""
    encoded.params()  # raises the caller's mistake, a payload without a JSON form, before any approver is asked
    if len(approvers) == 1:
        return {approvers[0].name: await ask(stage, approvers[0], encoded, clock, end, account)}
    answers: dict[str, Answered[P]] = {}
    async with anyio.create_task_group() as tasks:

        async def ask_one(seat: Seat) -> None:
            asked = answers[seat.name] = await ask(stage, seat, encoded, clock, end, account)
            if not isinstance(asked[0], Approve):
                tasks.cancel_scope.cancel()

        for seat in approvers:
            tasks.start_soon(ask_one, seat)
    return answers
