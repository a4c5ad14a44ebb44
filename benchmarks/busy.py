"""Calls beside busy processes: of another session, such as a build in another terminal, and of the host's own."""

from __future__ import annotations

import statistics
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from picohook import Host

from .clients import MinimalAsyncio
from .given import CALL, FAR, Given, hook
from .measure import Row, Times, micros

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

LOOPS, STARTS, SLICES, SLICE = 8, 5, 4, 0.1
"""How many loops are busy; how often a round starts each side anew; and for how many slices of how many seconds it then asks
each, in turns.

On which processors a host and its hook run, and beside how many loops, is decided at their start, and decides more than all
else. What share of a processor a process gets changes from slice to slice.
"""
DELAY = 0.001
"""Seconds. A call that takes longer has waited for a processor: the others take a twentieth of that."""


@contextmanager
def _busy(where: dict[str, Any]) -> Iterator[None]:
    """Keep all processors busy, with loops that are started like this."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"], **where) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


async def _ask(seconds: float, once: Callable[[], Awaitable[Any]]) -> list[float]:
    """The times of calls, one after another, for so many seconds."""
    clock = time.perf_counter
    times = []
    begun = clock()
    until = begun + seconds
    while begun < until:
        await once()
        ended = clock()
        times.append(ended - begun)
        begun = ended
    return times


async def _round(given: Given) -> dict[str, list[float]]:
    """The times of the calls of each side in a round."""
    times: dict[str, list[float]] = {"minimal": [], "ours": [], "own_session": []}
    for _ in range(given.times(STARTS)):
        minimal = MinimalAsyncio([given.echo])
        try:
            async with (
                Host([hook("h", given.echo)], timeouts=FAR) as host,
                Host([hook("h", given.echo, session="own")], timeouts=FAR) as other,
            ):
                sides = {
                    "minimal": partial(minimal.ask, "hook.before_tool", CALL),
                    "ours": partial(host.before_tool, CALL),
                    "own_session": partial(other.before_tool, CALL),
                }
                for _ in range(SLICES):
                    for name, once in sides.items():
                        times[name] += await _ask(SLICE, once)
        finally:
            await minimal.aclose()
    return times


async def _beside(given: Given, where: dict[str, Any]) -> tuple[Times, Times, Times]:
    """Of each side's calls: the mean of their times, the 99th percentile, and how many were delayed in a second."""
    with _busy(where):
        rounds = [await _round(given) for _ in range(given.rounds)]
    sides = rounds[0].keys()

    def figures(figure: Callable[[list[float]], float]) -> Times:
        return Times({name: [figure(times[name]) for times in rounds] for name in sides})

    return (
        figures(statistics.mean),
        figures(lambda times: statistics.quantiles(times, n=100)[-1]),
        figures(lambda times: sum(taken > DELAY for taken in times) / sum(times)),
    )


def busy(given: Given) -> list[Row]:
    """Not on one core: there, nothing would run beside a call but in its place."""
    rows = []
    for whose, where in (("other sessions", {"start_new_session": True}), ("the host's session", {"process_group": 0})):
        means, late, delays = anyio.run(_beside, given, where)
        beside = f"beside {LOOPS} busy loops of {whose}, against a minimal client"
        rows += [
            Row(
                f"calls a second, {beside}",
                means.ratio("minimal", "ours"),
                must=0.6,
                more_is_better=True,
                detail={f"{name}_per_s": round(1 / mean) for name, mean in means.items()},
            ),
            Row(
                f"p99, {beside}",
                late.ratio("ours", "minimal"),
                must=2,
                detail={f"{name}_us": micros(taken) for name, taken in late.items()}
                | {f"{name}_delays_per_s": round(count) for name, count in delays.items()},
            ),
        ]
    return rows
