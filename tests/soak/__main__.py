"""Hooks that are killed, stopped and replaced under load, and that misbehave in all the ways they know.

    python tests/soak --minutes 20 [--backend trio] [--seed 7]

Prints what came of it, and ends with 1 where anything is not as promised. Without a backend, each has half of the time.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

import anyio
from gauge import Used, marked, resident, slope
from load import HOOKS, OVERRUN, Config, Load, Tally

from picohook import Host

GROWTH = 4 * 1024 * 1024
"""Bytes by which memory may differ between the second quarter of a run and its last: not always is as much under way."""
SETTLING = 60.0
"""Seconds within which all hooks serve again, and what was under way has ended, when nothing is done to them any more.

It takes a fraction of a second, and much longer on a machine that is busy with other things. A leak stays for ever.
"""
LOOKS = 10
"""So often in a row the same is used, before it counts as what is used: not a moment at which a task or two are under way."""


class Ignored:
    """A logger that takes everything."""

    def __getattr__(self, level: str) -> object:
        return lambda event, **fields: None


async def soak(seconds: float, seed: int, directory: Path) -> tuple[Tally, dict[str, object]]:
    """One host, from its start to its end."""
    mark = f"soak-{os.getpid()}-{seed}"
    chance = random.Random(seed)
    config = Config(directory / "picohook.toml", mark)
    tally = Tally()
    memory: list[tuple[float, int]] = []
    # A first host, so that what libraries make once is there when the counting begins.
    async with Host.from_config(config.write(), logger=Ignored()) as host:
        await serving(host, Load(host, config, mark, chance, Tally()), tally)
        await host.reload()
    outside = await settled()
    async with Host.from_config(config.write(), logger=Ignored()) as host:
        load = Load(host, config, mark, chance, tally)
        await serving(host, load, tally)
        inside = await settled()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sample, memory, seconds / 20)
            await load.run(seconds)
            tasks.cancel_scope.cancel()
        config.whole()
        config.write()
        await host.reload()
        await serving(host, load, tally)
        held = host.status().containment
        changed = (await settled(inside)).since(inside)
    left, gone = await orphans(mark)
    after = (await settled(outside)).since(outside)
    grown, trend = growth(memory)
    for what, change in (("while it ran", changed), ("after its end", after)):
        for name, difference in change.items():
            if difference > 0:  # fewer is no leak
                tally.breach(f"{name} {what}: {difference:+}")
    if left:
        tally.breach(f"orphans: {left}")
    if grown > GROWTH:
        tally.breach(f"memory grew by {grown / 1024:.0f} KiB")
    return tally, {
        "calls": tally.calls,
        "answered / failed": f"{tally.answered} / {tally.failed}",
        "approved / denied": f"{tally.approved} / {tally.denied}",
        "done to hooks": ", ".join(f"{name} {count}" for name, count in sorted(tally.done.items())),
        "containment": held,
        "lost": tally.lost,
        "misattributed": tally.misattributed,
        "false approvals": tally.false_approvals,
        "worst deadline overrun": f"{tally.worst_overrun * 1000:.0f} ms",
        f"past {OVERRUN * 1000:.0f} ms": f"{tally.excused}, for want of a processor",
        "orphans": f"{len(left)}, the last one gone after {gone:.1f} s",
        "change while it ran": ", ".join(f"{name} {value:+}" for name, value in changed.items()),
        "change after its end": ", ".join(f"{name} {value:+}" for name, value in after.items()),
        "memory": f"{memory[-1][1] / 2**20:.1f} MiB, {grown / 1024:+.0f} KiB, {trend * 60 / 1024:+.0f} KiB a minute",
    }


async def serving(host: Host, load: Load, tally: Tally) -> None:
    """Until every hook answers: one that was told to hang is asked until it is killed for it."""
    with anyio.move_on_after(SETTLING):
        while True:
            waiting = [hook for hook in host.status().hooks if hook.state != "ready"]
            for hook in waiting:
                if hook.state in {"failed", "restarting"}:
                    host.reset(hook.name)
            if not waiting and await load.ask([hook.name for hook in host.status().hooks], {}, approval=False):
                return
            await anyio.sleep(0.05)
    tally.breach(f"not serving after {SETTLING:.0f} s: {[(one.name, one.state) for one in host.status().hooks]}")


async def settled(before: Used | None = None) -> Used:
    """What is used once that no longer changes, and is no more than before, as far as that comes in time."""
    used, same = Used.now(), 0
    with anyio.move_on_after(SETTLING):
        while same < LOOKS or (before is not None and any(more > 0 for more in used.since(before).values())):
            await anyio.sleep(0.02)
            earlier, used = used, Used.now()
            same = same + 1 if used == earlier else 0
    return used


async def orphans(mark: str) -> tuple[list[int], float]:
    """The processes of hooks that are still alive, and the seconds until there were none."""
    begun = anyio.current_time()
    with anyio.move_on_after(SETTLING):
        while marked(mark):
            await anyio.sleep(0.05)
    return marked(mark), anyio.current_time() - begun


async def sample(memory: list[tuple[float, int]], pause: float) -> None:
    while True:
        await anyio.sleep(pause)
        memory.append((anyio.current_time(), resident()))


def growth(memory: list[tuple[float, int]]) -> tuple[int, float]:
    """By how much the last quarter is above the second one, and the trend since then."""
    quarter = len(memory) // 4
    if not quarter:
        return 0, 0.0
    return median(memory[-quarter:]) - median(memory[quarter : 2 * quarter]), slope(memory[quarter:])


def median(samples: list[tuple[float, int]]) -> int:
    return sorted(value for _, value in samples)[len(samples) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--backend", choices=["asyncio", "trio"])
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    backends = [given.backend] if given.backend else ["asyncio", "trio"]
    wrong = []
    for backend in backends:
        seconds = 60 * given.minutes / len(backends)
        print(f"{backend}: {HOOKS} hooks, {seconds:.0f} s, seed {given.seed}", flush=True)
        with tempfile.TemporaryDirectory(prefix="picohook-soak-") as directory:
            run = partial(soak, seconds, given.seed, Path(directory))
            tally, report = anyio.run(run, backend=backend)
        for name, value in report.items():
            print(f"  {name + ':':25}{value}")
        for what in tally.wrong:
            print(f"  BREACH {what}")
        wrong += tally.wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
