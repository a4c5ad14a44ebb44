"""How things are measured: alternating, in rounds, on one core where it says so."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from typing import Self

Timed = Callable[[], Awaitable[float]]
"""Does its work once, and says what a single one of what it counts took, in seconds."""


class Ratio(float):
    """A median of several rounds, which it keeps."""

    rounds: tuple[float, ...] = ()

    @classmethod
    def median(cls, rounds: Sequence[float]) -> Self:
        """The median of these."""
        made = cls(statistics.median(rounds))
        made.rounds = tuple(rounds)
        return made


@dataclass
class Row:
    """A figure that is held to a bound, or only shown."""

    measure: str
    value: float
    unit: str = ""
    must: float | None = None
    """The bound: the most that it may be, or the least if more is better."""
    more_is_better: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
    in_every_round: bool = False
    """Whether the worst round is held to the bound, and not the median."""
    why: str = ""
    """Why the bound is not lower."""

    @property
    def rounds(self) -> tuple[float, ...]:
        """The value in each round; empty if it was measured once."""
        return self.value.rounds if isinstance(self.value, Ratio) else ()

    @property
    def is_met(self) -> bool:
        """Whether it is within its bound, or has none."""
        if self.must is None:
            return True
        judged = (min if self.more_is_better else max)(self.rounds) if self.in_every_round else self.value
        return judged >= self.must if self.more_is_better else judged <= self.must

    @property
    def shown(self) -> str:
        """The figure with its unit."""
        return f"{self.value:.2f} {self.unit}".strip()

    @property
    def bound(self) -> str:
        """The bound in words."""
        if self.must is None:
            return ""
        return (
            f"{'at least' if self.more_is_better else 'at most'} {self.must:g}{' in each round' * self.in_every_round}"
        )

    @property
    def missed(self) -> str:
        """A sentence that says what it misses; empty if it misses nothing."""
        spread = f" ({min(self.rounds):.2f} to {max(self.rounds):.2f})" if self.rounds else ""
        return "" if self.is_met else f"{self.measure}: it is {self.shown}{spread}, and must be {self.bound}."


@contextlib.contextmanager
def on_one_core(*, pinned: bool = True) -> Iterator[None]:
    """Keep this process, and those it starts, on one core."""
    if not pinned or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Times(dict[str, float]):
    """The median time of each, over rounds in which they took turns."""

    def __init__(self, seen: dict[str, list[float]]) -> None:
        super().__init__({name: statistics.median(times) for name, times in seen.items()})
        self._seen = seen

    def figures(self) -> dict[str, dict[str, object]]:
        """Median and rounds of each, in microseconds."""
        return {
            name: {"median_us": micros(self[name]), "rounds_us": [micros(time) for time in times]}
            for name, times in self._seen.items()
        }

    def quiet(self, turns: int) -> Times:
        """For each round of so many turns, the time of the quickest fifth: what others do on the machine is least in it."""
        parts = {
            name: [sorted(times[at : at + turns]) for at in range(0, len(times), turns)]
            for name, times in self._seen.items()
        }
        return Times({name: [part[turns // 5] for part in rounds] for name, rounds in parts.items()})

    def ratio(self, one: str, other: str) -> Ratio:
        """The median of both's ratio in each round: what slows the machine down for a while slows both."""
        return self.each_round(lambda at: at[one] / at[other])

    def each_round(self, figure: Callable[[dict[str, float]], float]) -> Ratio:
        """The median of a figure that is made of each round's times."""
        rounds = zip(*self._seen.values(), strict=True)
        return Ratio.median([figure(dict(zip(self._seen, times, strict=True))) for times in rounds])


async def alternate(rounds: int, **what: Timed) -> Times:
    """The times of each, over so many rounds."""

    async def only_part(timed: Timed) -> tuple[float]:
        return (await timed(),)

    (times,) = await alternate_parts(rounds, **{name: partial(only_part, timed) for name, timed in what.items()})
    return times


async def alternate_parts(rounds: int, **what: Callable[[], Awaitable[Sequence[float]]]) -> list[Times]:
    """For works of several timed parts: the times of each part, over so many rounds."""
    seen: dict[str, list[Sequence[float]]] = {name: [] for name in what}
    for _ in range(rounds):
        for name, timed in what.items():
            gc.collect()
            seen[name].append(await timed())
    parts = range(len(next(iter(seen.values()))[0]))
    return [Times({name: [times[part] for times in all_times] for name, all_times in seen.items()}) for part in parts]


def p50(count: int, once: Callable[[], Awaitable[Any]]) -> Timed:
    """The median time of one of `count`, done one after another."""

    async def timed() -> float:
        clock, times = time.perf_counter, []
        for _ in range(count):
            begun = clock()
            await once()
            times.append(clock() - begun)
        return statistics.median(times)

    return timed


def each(count: int, at_once: int, once: Callable[[], Awaitable[Any]]) -> Timed:
    """The time of one of `count`, so many of them at once."""

    async def worker() -> None:
        for _ in range(count // at_once):
            await once()

    async def timed() -> float:
        begun = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(worker)
        return (time.perf_counter() - begun) / count

    return timed


def blocking(once: Callable[[], Any], count: int = 1, clock: Callable[[], float] = time.perf_counter) -> Timed:
    """The median time of one of `count` that need no event loop."""

    async def timed() -> float:
        times = []
        for _ in range(count):
            begun = clock()
            once()
            times.append(clock() - begun)
        return statistics.median(times)

    return timed


def micros(seconds: float) -> float:
    """Microseconds, as they are shown."""
    return round(seconds * 1e6, 2)
