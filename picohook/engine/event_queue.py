"""The queue of events from `emit` to the hooks.

Each hook has a queue of its own behind this one. When that is full, its oldest events are dropped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.failure_policy import cause, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..hooks.base import Hook
    from ..model.events import Event
    from ..transport.reactor import Reactor

MOST_WAITING = 1024
"""Events that may wait for the event loop's next round. A hook's own queue holds as many."""


class EventQueue:
    """Hands events on in the event loop's next round, so that `emit` costs its caller very little."""

    def __init__(self, reactor: Reactor, told: Callable[[Event, Sequence[Hook]], None] | None = None) -> None:
        self._reactor = reactor
        self._told = told
        self._waiting: list[tuple[Event, Sequence[Hook]]] = []

    def put(self, event: Event, hooks: Sequence[Hook]) -> None:
        """Queue an event for these hooks."""
        if not self._waiting:
            self._reactor.soon(self.flush)
        self._waiting.append((event, hooks))
        if len(self._waiting) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Hand on all waiting events now. If a hook's `notify` raises, the event is dropped and counted as a failure."""
        waiting, self._waiting = self._waiting, []
        for event, hooks in waiting:
            if self._told is not None:
                self._told(event, hooks)
            for hook in hooks:
                try:
                    hook.notify(event if hook.takes_bytes else event.deep_copy())
                except Exception as error:  # a failing observer must not reach the event loop
                    now = self._reactor.now()
                    hook.failures.add("observe", cause(error), describe(error), "an event that was not taken", now)
