"""Times calls out. All calls of a channel share one alarm, because a timer for each call would cost too much."""

from __future__ import annotations

import heapq
import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from .reactor import Promise, Reactor

    class Calls(Protocol):
        """Calls that wait for replies, by the numbers of their requests."""

        @property
        def waiting(self) -> list[Any]:
            """All calls that wait."""

        def in_flight(self) -> int:
            """The number of calls in flight."""

        def pending_token(self, request_id: object) -> Any:
            """The call with this number; None if it has ended."""


NEVER = float("inf")
SPARE = 64
"""The number of ended calls that may stay in the heap, however few are in flight."""
_request_of = attrgetter("request")


class Deadlines:
    """Calls `on_timeout` with the calls whose deadline has passed, oldest first.

    Most calls end long before their deadline, so a new call only moves the alarm. When the alarm rings, the calls in flight
    are put in a heap. From then on each new call is added to the heap, until the heap is empty or most of its calls have ended.
    So not every ring has to look at all calls, and calls that end in time need no heap.
    """

    __slots__ = ("_alarm", "_alarm_at", "_calls", "_heap", "_on_timeout", "_reactor", "next")

    def __init__(self, reactor: Reactor, calls: Calls, on_timeout: Callable[[list[Promise]], None]) -> None:
        self.next = NEVER
        """Calls with an earlier deadline have to be added; others need not be."""
        self._alarm_at = NEVER
        """The first deadline, or earlier, if the call with the first deadline has ended."""
        self._heap: list[tuple[float, int]] = []
        """Deadlines and requests. A call in flight may have a later deadline by now; others have ended."""
        self._reactor = reactor
        self._calls = calls
        self._on_timeout = on_timeout
        self._alarm = reactor.alarm(self._check)

    def add(self, call: Promise) -> None:
        """Add a call whose deadline is earlier than `next`."""
        if self._heap:
            heapq.heappush(self._heap, (call.deadline, call.request))
            if len(self._heap) > 2 * self._calls.in_flight() + SPARE:
                self._heap.clear()
        self._set(min(call.deadline, self._alarm_at))

    def _set(self, when: float) -> None:
        if when < self._alarm_at:
            self._alarm.set(when)
        self._alarm_at = when
        self.next = NEVER if self._heap else when

    def _check(self) -> None:
        now, heap, late = self._reactor.now(), self._heap, []
        if not heap:
            heap += [(call.deadline, call.request) for call in self._calls.waiting]
            heapq.heapify(heap)
        while heap:
            deadline, request = heap[0]
            call = self._calls.pending_token(request)
            if call is not None and call.deadline > deadline:
                heapq.heapreplace(heap, (call.deadline, request))
            elif call is None or deadline <= now:
                heapq.heappop(heap)
                if call is not None:
                    late.append(call)
            else:
                break
        self._alarm_at = NEVER
        self._set(heap[0][0] if heap else NEVER)
        late.sort(key=_request_of)
        self._on_timeout(late)

    def close(self) -> None:
        """Stop the alarm, and drop the callbacks."""
        self._alarm.off()
        del self._alarm, self._on_timeout, self._calls


def no_answer(timeout: float) -> str:
    """Returns the text of a time-out, with its seconds rounded to milliseconds: a fraction passes before the call."""
    millis = math.ceil(round(timeout * 1000, 3))
    return f"no answer within {float(f'{millis / 1000:.3g}'):g} s"
