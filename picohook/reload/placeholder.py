"""A placeholder for a hook that starts later."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import HookCrashedError
from ..hooks.base import Hook, HookStatus

if TYPE_CHECKING:
    from ..hooks.base import Question
    from ..model.decisions import Decision
    from ..model.events import Event

EVENTS_HELD = 1024
"""Events that may wait for a hook. When there are more, the oldest are dropped."""


class Placeholder(Hook):
    """A placeholder for a hook that starts when the hook before it has ended. Questions and events wait here."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(hook.spec)
        self.in_process = hook.in_process
        self.waits_for_person = hook.waits_for_person
        self.metrics = hook.metrics
        self._hook: Hook | None = None
        self._filled = anyio.Event()
        self._events: deque[Event] = deque(maxlen=EVENTS_HELD)

    def fill(self, hook: Hook) -> None:
        """Give the started hook everything that waits."""
        self._hook = hook
        for event in self._events:
            hook.notify(event)
        self._filled.set()

    async def handle(self, question: Question[Any]) -> Decision:
        with question.time_limit("timed out waiting for the old hook to end"):
            await self._filled.wait()
        if self._hook is None:
            raise HookCrashedError("it is being stopped", hook=self.name)
        return await self._hook.handle(question)

    def notify(self, event: Event) -> None:
        if self._hook is None:
            self._events.append(event)
        else:
            self._hook.notify(event)

    async def flushed(self, deadline: float) -> bool:
        with anyio.CancelScope(deadline=deadline):
            await self._filled.wait()
        return self._hook is not None and await self._hook.flushed(deadline)

    def stop(self) -> None:
        self._filled.set()

    def status(self) -> HookStatus:
        return replace(super().status(), state="starting")
