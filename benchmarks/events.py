"""What telling of an event costs who tells, and how soon it is told."""

from __future__ import annotations

import json
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import anyio
import jiter

from picohook import Host, Meta

from .clients import Pipe, line
from .given import CALL, FAR, Given, hook, on
from .measure import Row, Times, alternate, micros, on_one_core

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAYLOAD = {"Tool": "bash", "Arguments": {"command": "ls -la", "timeout": 30}}
META = Meta(agent_id="main", turn_id="turn-1", session_key="s1", iteration=1)
BATCH = 50
OBSERVERS = 10
SETTLED = 0.001
"""Seconds after which all observers have most likely read the event."""


async def _emitting(given: Given) -> Times:
    count = given.times(100)
    hooks = [hook(f"h{number}", given.echo, stages=[], observe=["tool_exec_start"]) for number in range(20)]
    async with Host(hooks, timeouts=FAR) as host:

        async def ours() -> float:
            spent = 0.0
            for _ in range(count):
                begun = time.perf_counter()
                for _ in range(BATCH):
                    host.emit("tool_exec_start", PAYLOAD, meta=META)
                spent += time.perf_counter() - begun
                await host.emit_and_wait("tool_exec_start", PAYLOAD, meta=META)
            return spent / count / BATCH

        async def dumps() -> float:
            params = {"kind": "tool_exec_start", "meta": META.wire(), "payload": PAYLOAD}
            message = {"jsonrpc": "2.0", "method": "hook.event", "params": params}
            begun = time.perf_counter()
            for _ in range(count * BATCH):
                json.dumps(message)
            return (time.perf_counter() - begun) / count / BATCH

        return await alternate(given.rounds, dumps=dumps, ours=ours)


def events(given: Given) -> list[Row]:
    """What an event costs its caller."""
    with on_one_core():
        at = on("asyncio", partial(_emitting, given))
    detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
    return [
        Row(
            "emit at the caller, 20 observers, against one json.dumps",
            at.ratio("ours", "dumps"),
            must=2,
            detail=detail,
        )
    ]


async def _delivering(given: Given) -> Times:
    count = given.times(200)
    command = [given.echo, "time"]
    pipes = [Pipe(command) for _ in range(OBSERVERS)]
    question = line(2, "hook.before_tool", CALL.wire())

    def write() -> None:
        params = {"kind": "tool_exec_start", "meta": META.wire(), "payload": PAYLOAD}
        data = json.dumps({"jsonrpc": "2.0", "method": "hook.event", "params": params}).encode() + b"\n"
        for pipe in pipes:
            pipe.send(data)

    async def read_by_hand() -> list[int]:
        return [int(jiter.from_json(pipe.ask(question))["result"]["reason"]) for pipe in pipes]

    async def read() -> list[int]:
        return [int(entry.reason) for entry in (await host.before_tool(CALL)).trail]

    async def delivered(tell: Callable[[], None], when: Callable[[], Awaitable[list[int]]]) -> float:
        """Seconds until the last observer has read an event from its stdin."""
        taken = []
        for _ in range(count):
            begun = time.monotonic_ns()
            tell()
            await anyio.sleep(SETTLED)
            while min(times := await when()) < begun:  # one of them has not read it yet
                pass
            taken.append(max(times) - begun)
        return statistics.median(taken) / 1e9

    hooks = [hook(f"h{number}", *command, observe=["tool_exec_start"]) for number in range(OBSERVERS)]
    async with Host(hooks, timeouts=FAR) as host:
        emit = partial(host.emit, "tool_exec_start", PAYLOAD, meta=META)
        measured = await alternate(
            given.rounds, raw=partial(delivered, write, read_by_hand), ours=partial(delivered, emit, read)
        )
    for pipe in pipes:
        pipe.close()
    return measured


def delivery(given: Given) -> list[Row]:
    """To the other end: hooks say when they read the event."""
    with on_one_core():
        at = on("asyncio", partial(_delivering, given))
    measure = f"emit until the last of {OBSERVERS} observers has read it, against one json.dumps and {OBSERVERS} writes"
    detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
    return [Row(measure, at.ratio("ours", "raw"), must=2, detail=detail)]
