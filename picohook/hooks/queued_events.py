"""Hooks that take events from a queue, one at a time, in a task. A full queue drops its oldest event."""

from collections import deque
from dataclasses import replace

import anyio

from ..model import failure_policy
from ..model.events import Event
from ..model.trail import TrailEntry
from ..wire import words
from .base import Hook, HookStatus, HostServices

WAITING = 1024
"""The most events in a queue."""


class QueuedEventsHook(Hook):
    """A hook with a queue of events. A subclass handles each in `take`; its failures are counted.

    After `stop`, the hook has `grace` to take the rest of the queue.
    """

    def open(self, host: HostServices) -> None:
        self._host = host
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._stopping = False
        self._told = anyio.Event()
        self._noted = self._done = 0
        """The number of events that were queued, and the number of those that are done."""
        self._waited_for: deque[tuple[int, anyio.Event]] = deque()
        self._taking: Event | None = None
        self._life = anyio.CancelScope()

    async def take(self, event: Event) -> None:
        """Handle one event."""

    def notify(self, event: Event) -> None:
        if len(self._waiting) == WAITING:
            self._waiting.popleft()
            self._dropped += 1
            self._done_with(1)
        self._waiting.append(event)
        self._noted += 1
        self._told.set()

    async def run(self) -> None:
        with self._life:
            while True:
                while self._waiting:
                    self._taking = self._waiting.popleft()
                    await self._take(self._taking)
                    self._taking = None
                    self._done_with(1)
                if self._stopping:
                    return
                await self._told.wait()
                self._told = anyio.Event()
        if self._taking is not None:
            why = f"the hook was stopped, and its grace of {self.spec.grace:g} s ended before it had handled the event"
            self._host.log.warning("an event was cut off", kind=self._taking.kind, why=why)
        if self._waiting:
            self._dropped += len(self._waiting)
            self._host.log.warning("events were not taken in time", events=len(self._waiting))
        for _, done in self._waited_for:
            done.set()

    def _done_with(self, events: int) -> None:
        self._done += events
        while self._waited_for and self._waited_for[0][0] <= self._done:
            self._waited_for.popleft()[1].set()

    async def _take(self, event: Event) -> None:
        now = self._host.reactor.now
        begun, cause, retries = now(), None, 0
        while True:
            try:
                await self.take(event)
            except Exception as error:  # an observer's failure is only counted
                if retries < self.spec.retry and not self._stopping:
                    retries += 1
                    continue
                cause = failure_policy.cause(error)
                self.failures.add(
                    words.OBSERVE, cause, failure_policy.describe(error), "an event that was not taken", now()
                )
            else:
                self.failures.answered(words.OBSERVE, now())
            break
        entry = TrailEntry(self.name, "", now() - begun, cause, retries=retries, failure=cause)
        self.metrics.stages[words.OBSERVE].record(entry)

    @property
    def own_timeout(self) -> float:
        """Seconds for one event, in hooks that limit it: the timeout for a question."""
        return self.spec.timeout or self._host.timeouts.interceptor

    def stop(self) -> None:
        self._stopping = True
        self._life.deadline = self._host.reactor.now() + self.spec.grace
        self._told.set()

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return (None, "observer_timeout") if self.spec.timeout is None else (self.spec.timeout, "timeout")

    async def flushed(self, deadline: float) -> bool:
        if self._noted == self._done:
            return True
        number, done = self._noted, anyio.Event()
        self._waited_for.append((number, done))
        with anyio.CancelScope(deadline=deadline):
            await done.wait()
        return self._done >= number

    def status(self) -> HookStatus:
        calls = sum(stage.executions for stage in self.metrics.stages.values())
        return replace(super().status(), calls=calls, dropped_events=self._dropped)
