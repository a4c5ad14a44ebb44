"""Events for hooks that take them one at a time, in a task of their own."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

from .. import policy
from .base import Hook, HookStatus

if TYPE_CHECKING:
    from ..events import Event
    from .base import Site

OBSERVE = "observe"
"""What stands for a stage where a hook is told of an event."""
WAITING = 1024
"""Events that may wait; then the oldest give way."""


class MailboxHook(Hook):
    """A hook whose `take` gets each event, and hurts nobody by failing. When it is stopped, `grace` is left for the rest."""

    def open(self, site: Site) -> None:
        self._site = site
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._stopping = False
        self._told = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._life = anyio.CancelScope()

    async def take(self, event: Event) -> None:
        """Do with an event what the hook does with events."""

    def notify(self, event: Event) -> None:
        if len(self._waiting) == WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(event)
        if self._idle.is_set():
            self._idle = anyio.Event()
        self._told.set()

    async def run(self) -> None:
        with self._life:
            while True:
                while self._waiting:
                    await self._take(self._waiting.popleft())
                self._idle.set()
                if self._stopping:
                    return
                await self._told.wait()
                self._told = anyio.Event()
        if self._waiting:
            self._dropped += len(self._waiting)
            self._site.log.warning("events were not taken in time", events=len(self._waiting))

    async def _take(self, event: Event) -> None:
        now = self._site.reactor.now
        begun, cause, retries = now(), None, 0
        while True:
            try:
                await self.take(event)
            except Exception as error:  # noqa: BLE001 - an observer hurts nobody
                if retries < self.spec.retry and not self._stopping:
                    retries += 1
                    continue
                cause = policy.cause(error)
                self.failures.add(OBSERVE, cause, policy.describe(error), "an event that was not taken", now())
            else:
                self.failures.answered(OBSERVE, now())
            break
        self.metrics.stages[OBSERVE].record(now() - begun, cause, retries)

    def stop(self) -> None:
        self._stopping = True
        self._life.deadline = self._site.reactor.now() + self.spec.grace
        self._told.set()

    async def flushed(self, deadline: float) -> bool:
        idle = self._idle
        with anyio.CancelScope(deadline=deadline):
            await idle.wait()
        return idle.is_set()

    def status(self) -> HookStatus:
        return HookStatus(
            self.name,
            "ready",
            calls=sum(stage.executions for stage in self.metrics.stages.values()),
            failures=self.metrics.failures,
            dropped_events=self._dropped,
            last_error=self.failures.last,
            stages=self.metrics.wire(),
        )
