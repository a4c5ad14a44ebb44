"""Hooks started and stopped, against their programs started and stopped with no host."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import anyio

from picohook import Host

from .clients import ENVIRONMENT, line
from .given import FAR, Given, hook
from .measure import Row, Times, alternate_parts

BOUNDS = {20: (8.0, 11.0), 200: (2.6, 6.0)}
WHY = "a namespace for each hook; in C, starts with one take 1.4 and stops 3, and the launcher itself takes 10 ms"
"""For each number of hooks, the bounds of the start and of the stop."""
TIMES = 5
"""How many starts and stops of each side are in a round. A single one takes so little time that any other process shows."""


async def _contained(program: str, number: int) -> tuple[float, float]:
    """Seconds until a host has started these hooks, and until it has stopped them."""
    hooks = [hook(f"h{place}", program) for place in range(number)]
    clock = time.perf_counter
    begun = clock()
    async with Host(hooks, timeouts=FAR) as host:
        started = clock() - begun
        tier = host.status().containment
        if tier not in {"namespace", "sweep"}:
            raise RuntimeError(f"this benchmark needs a machine with containment, and this one has the tier {tier}")
        begun = clock()
    return started, clock() - begun


def _bare(program: str, number: int) -> tuple[float, float]:
    """The same with `posix_spawn`: each program gets a hello and answers it, and later its input ends."""
    clock = time.perf_counter
    begun = clock()
    children = [_spawn(program) for _ in range(number)]
    for _, stdin, _, _ in children:
        os.write(stdin, line(1, "hook.hello", {}))
    for _, _, stdout, _ in children:
        os.read(stdout, 4096)
    started = clock() - begun
    begun = clock()
    for _, stdin, _, _ in children:
        os.close(stdin)
    for pid, _, stdout, stderr in children:
        os.waitpid(pid, 0)
        os.close(stdout)
        os.close(stderr)
    return started, clock() - begun


def _spawn(program: str) -> tuple[int, int, int, int]:
    """Start the program in a process group of its own, as a hook. Returns its pid, and the other ends of its streams."""
    pipes = os.pipe(), os.pipe(), os.pipe()
    theirs = pipes[0][0], pipes[1][1], pipes[2][1]
    pid = os.posix_spawn(
        program,
        [program],
        ENVIRONMENT,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, stream) for stream, fd in enumerate(theirs)],
        setpgroup=0,
        setsigdef=(signal.SIGPIPE,),
    )
    for fd in theirs:
        os.close(fd)
    return pid, pipes[0][1], pipes[1][0], pipes[2][0]


async def _start_stop(given: Given, number: int) -> tuple[Times, Times]:
    program = given.echo

    async def bare() -> tuple[float, float]:
        return _bare(program, number)

    await _contained(program, 1)  # what a process does once: it imports modules, and tries the tiers
    started, stopped = await alternate_parts(
        given.rounds * given.times(TIMES), host=partial(_contained, program, number), bare=bare
    )
    return started, stopped


def start_stop(given: Given) -> list[Row]:
    """Starts and stops of hooks in containment."""
    rows = []
    for number, bounds in BOUNDS.items():
        started, stopped = anyio.run(_start_stop, given, number)
        for (what, at), must in zip((("start", started), ("stop", stopped)), bounds, strict=True):
            detail = {f"{name}_ms": round(taken * 1e3, 1) for name, taken in at.items()}
            measure = f"{what} of {number} compiled hooks, contained, against posix_spawn"
            rows.append(Row(measure, at.ratio("host", "bare"), must=must, detail=detail, why=WHY))
    return rows
