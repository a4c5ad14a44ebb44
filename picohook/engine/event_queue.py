"""The queue of events from `emit` to the hooks.

Each hook has a queue of its own behind this one. When that is full, its oldest events are dropped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..model.failure_policy import cause, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hooks.base import Hook
    from ..model.events import Event
    from ..model.payloads import Meta, Payload
    from ..transport.reactor import Reactor

MOST_WAITING = 1024
"""Events that may wait for the event loop's next round. A hook's own queue holds as many."""


class EventOf(TypedDict, total=False):
    """The place of an event."""

    meta: Meta | None
    """The event's ids. Without it, those of `about`."""
    about: Payload | None
    """The payload that the event is about, such as a `ToolCall`. The event takes its meta and its place."""


class EventQueue:
    """Hands events on in the event loop's next round, so that `emit` costs its caller very little."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._waiting: list[tuple[Event, Sequence[Hook]]] = []

    def put(self, event: Event, hooks: Sequence[Hook]) -> None:
        if not self._waiting:
            self._reactor.soon(self.flush)
        self._waiting.append((event, hooks))
        if len(self._waiting) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Hand on all waiting events now. If a hook's `notify` raises, the event is dropped and counted as a failure."""
        waiting, self._waiting = self._waiting, []
        for event, hooks in waiting:
            for hook in hooks:
                try:
                    hook.notify(event if hook.takes_bytes else event.deep_copy())
                except Exception as error:  # a failing observer must not reach the event loop
                    now = self._reactor.now()
                    hook.failures.add("observe", cause(error), describe(error), "an event that was not taken", now)
