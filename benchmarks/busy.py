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

LOOPS, SLICES, SLICE = 8, 20, 0.1
"""How many loops are busy; and in how many slices of how many seconds a round asks each side, in turns.

What share of a processor a process gets changes from slice to slice.
"""


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


async def _alternate(given: Given, **sides: Callable[[], Awaitable[Any]]) -> tuple[Times, Times]:
    """Calls of each side, one after another: the mean of their times, and the 99th percentile."""
    clock = time.perf_counter
    means: dict[str, list[float]] = {name: [] for name in sides}
    late: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(given.rounds):
        times: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(given.times(SLICES)):
            for name, once in sides.items():
                begun = clock()
                until = begun + SLICE
                while begun < until:
                    await once()
                    ended = clock()
                    times[name].append(ended - begun)
                    begun = ended
        for name, taken in times.items():
            means[name].append(statistics.mean(taken))
            late[name].append(statistics.quantiles(taken, n=100)[-1])
    return Times(means), Times(late)


async def _beside(given: Given, where: dict[str, Any]) -> tuple[Times, Times]:
    minimal = MinimalAsyncio([given.echo])
    try:
        async with (
            Host([hook("h", given.echo)], timeouts=FAR) as host,
            Host([hook("h", given.echo, session="own")], timeouts=FAR) as other,
        ):
            with _busy(where):
                return await _alternate(
                    given,
                    minimal=partial(minimal.ask, "hook.before_tool", CALL),
                    ours=partial(host.before_tool, CALL),
                    own_session=partial(other.before_tool, CALL),
                )
    finally:
        await minimal.aclose()


def busy(given: Given) -> list[Row]:
    """18. Not on one core: there, nothing would run beside a call but in its place."""
    rows = []
    for whose, where in (("other sessions", {"start_new_session": True}), ("the host's session", {"process_group": 0})):
        means, late = anyio.run(_beside, given, where)
        beside = f"beside {LOOPS} busy loops of {whose}, against a minimal client"
        rows += [
            Row(
                "18",
                f"calls a second, {beside}",
                means.ratio("minimal", "ours"),
                must=0.6,
                more_is_better=True,
                detail={f"{name}_per_s": round(1 / mean) for name, mean in means.items()},
            ),
            Row(
                "18",
                f"p99, {beside}",
                late.ratio("ours", "minimal"),
                must=2,
                detail={f"{name}_us": micros(taken) for name, taken in late.items()},
            ),
        ]
    return rows
