"""What telling of an event costs who tells."""

from __future__ import annotations

import json
import time
from functools import partial

from picohook import Host, Meta

from .given import FAR, Given, hook, on
from .measure import Row, Times, alternate, micros, on_one_core

PAYLOAD = {"Tool": "bash", "Arguments": {"command": "ls -la", "timeout": 30}}
META = Meta(agent_id="main", turn_id="turn-1", session_key="s1", iteration=1)
BATCH = 50


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
    """7."""
    with on_one_core():
        at = on("asyncio", partial(_emitting, given))
    detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
    return [
        Row(
            "7",
            "emit at the caller, 20 observers, against one json.dumps",
            at.ratio("ours", "dumps"),
            must=2,
            aim=1,
            detail=detail,
        )
    ]
