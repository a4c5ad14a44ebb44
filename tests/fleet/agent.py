"""An agent whose only hook is served elsewhere: it calls tools all the time, and prints what became of the calls.

    python agent.py picohook.toml

Prints a line of JSON several times a second, until a signal ends it. No tool does anything.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import Counter

import anyio

from picohook import Host, ToolCall, ToolResult

COMMANDS = ("ls", "rm -rf /", "curl example.com")
EVERY = 0.2
"""Seconds between two lines."""
PAUSE = 0.01
"""Seconds between two calls."""


async def main(config: str) -> None:
    ran: Counter[str] = Counter()
    denied: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    last: dict[str, str] = {}
    async with Host.from_config(config) as host, anyio.create_task_group() as tasks:

        async def stop() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                async for _ in signals:
                    tasks.cancel_scope.cancel()

        async def call(command: str) -> None:
            def tool(_: ToolCall) -> str:
                ran[command] += 1
                return "done"

            result: ToolResult = await host.run_tool(ToolCall(tool="bash", arguments={"command": command}), tool)
            last[command] = "denied" if result.is_error else "ran"
            if result.is_error:
                denied[command] += 1

        tasks.start_soon(stop)
        told = 0.0
        while True:
            for command in COMMANDS:
                await call(command)
                await anyio.sleep(PAUSE)
            if time.monotonic() - told >= EVERY:
                told = time.monotonic()
                failed.clear()
                for stage in (stage for hook in host.status().hooks for stage in hook.stages.values()):
                    failed.update(stage["failures"])
                counts = {"ran": ran, "denied": denied, "failed": failed, "last": last}
                print(json.dumps(counts), flush=True)


anyio.run(main, sys.argv[1])
