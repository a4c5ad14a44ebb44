"""The longest time for which one callback keeps an event loop of asyncio, in time of the processor and not of the clock."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time

LIMIT = 25
"""How many baselines a piece may take: about 125 ms where the baseline takes 5."""


@functools.cache
def baseline():
    """The seconds of the processor for some work that takes about 5 ms; the least of several tries."""
    return min(cost(lambda: sum(number * number for number in range(150_000))) for _ in range(7))


def cost(work):
    """The seconds of the processor that this thread takes for a call."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


class Pieces:
    """What the callbacks took since it began."""

    def __init__(self):
        self.longest = 0.0
        self.what = ""

    def require_short(self):
        """Fail if one callback took too long."""
        taken = self.longest / baseline()
        assert taken < LIMIT, f"{taken:.1f} baselines in one piece: {self.what}"


@contextlib.contextmanager
def pieces():
    """Measure every callback of the event loop."""
    found, run = Pieces(), asyncio.Handle._run

    def measured(handle):
        begun = time.thread_time()
        try:
            run(handle)
        finally:
            taken = time.thread_time() - begun
            if taken > found.longest:
                found.longest, found.what = taken, repr(handle)[:300]

    asyncio.Handle._run = measured
    try:
        yield found
    finally:
        asyncio.Handle._run = run
