"""A hook answers for a tool itself. If the hook does not own the tool, approvers are asked about the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..model.stages import BEFORE_TOOL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..model.decisions import Outcome
    from ..model.payloads import ToolCall


async def approved_answer(
    outcome: Outcome[ToolCall],
    owns: Callable[[str, ToolCall], bool],
    approve: Callable[[ToolCall], Awaitable[Outcome[ToolCall]]],
) -> Outcome[ToolCall]:
    """Returns the outcome with the hook's answer, or the denial of an approver.

    If the hook renamed the tool, both calls need approval: the one that it was asked about, and its own.
    """
    trail = outcome.trail
    for call in _calls_of(outcome):
        if not owns(outcome.hook, call):
            approval = await approve(call)
            trail += approval.trail
            if not approval.approved:
                return replace(approval, stage=BEFORE_TOOL.name, trail=trail)
    return replace(outcome, trail=trail)


def _calls_of(outcome: Outcome[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls that the answer is for."""
    asked, answered = outcome.asked_about, outcome.payload
    if asked is None or asked.tool == answered.tool:
        return (answered,)
    return (asked.model_copy(update={"meta": answered.meta}), answered)  # the caller's own meta, as in the outcome
