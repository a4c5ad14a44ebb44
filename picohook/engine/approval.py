"""Approval: all approvers are asked at once, and all must say yes. A failure is a denial: see `failure_policy.on_failure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import anyio

from ..model.decisions import Approve
from ..model.payloads import Payload
from .trail import not_asked, not_waited_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.decisions import Asked, Outcome
    from .chain import Chain
    from .seat import Seat

P = TypeVar("P", bound=Payload)


async def approve(chain: Chain[P], seats: Sequence[Seat]) -> Outcome[P]:
    """Ask all approvers whose filters match the call. After the first denial, the others are not waited for.

    Returns the outcome. Their time limits are their own timeouts, and the end of the chain.
    """
    approvers = [seat for seat in seats if seat.wants(chain.encoded.payload)]
    answers = await _ask_all(chain, approvers) if approvers else {}
    for seat in seats:
        asked = answers.get(seat.name)
        if asked is not None:
            chain.trail.append(asked.entry)
        else:
            chain.trail.append(not_waited_for(seat) if seat in approvers else not_asked(chain.stage, seat))
    for seat in approvers:
        asked = answers.get(seat.name)
        if asked is not None and not isinstance(asked.decision, Approve):
            return chain.outcome(seat, asked, approved=False)
    return chain.outcome(approved=len(answers) == len(approvers))


async def _ask_all(chain: Chain[P], approvers: Sequence[Seat]) -> dict[str, Asked[P]]:
    """Returns the answers by hook name, without those that came after a denial."""
    chain.encoded.params()  # raises the caller's mistake, a payload without a JSON form, before any approver is asked
    if len(approvers) == 1:
        return {approvers[0].name: await chain.ask(approvers[0], chain.end)}
    answers: dict[str, Asked[P]] = {}
    async with anyio.create_task_group() as tasks:

        async def ask_one(seat: Seat) -> None:
            asked = answers[seat.name] = await chain.ask(seat, chain.end)
            if not isinstance(asked.decision, Approve):
                tasks.cancel_scope.cancel()

        for seat in approvers:
            tasks.start_soon(ask_one, seat)
    return answers
