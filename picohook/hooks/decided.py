"""A decision that was taken elsewhere, in the seat of the hook that handed it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Hook

if TYPE_CHECKING:
    from ..model.decisions import Decision
    from ..model.spec import HookSpec
    from .base import Question


class DecidedHook(Hook):
    """Answers for a hook that paused."""

    def __init__(self, spec: HookSpec, decision: Decision) -> None:
        super().__init__(spec)
        self._decision = decision

    async def handle(self, question: Question[Any]) -> Decision:
        del question
        return self._decision
