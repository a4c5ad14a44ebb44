"""`python -m benchmarks.backtest [CALLS]`: the throughput of a back-test, against that of asking the same hook live.

A record of so many calls, 100,000 by default, is replayed against a hook on the SDK. Live, a host asks the same hook the same
questions, one after another, on the same event loop. Both take turns. The ratio has to be at least 0.5.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from picohook import Host
from picohook.cli.host import garbage_collected_rarely, has_uvloop

ROUNDS = 3
HOOK = Path(__file__).parent / "hooks" / "sdk.py"
CONFIG = f"""
[hooks.guard]
command = [{json.dumps(sys.executable)}, "-S", {json.dumps(str(HOOK))}]
env = {{ PYTHONPATH = {json.dumps(str(HOOK.parents[2]))} }}
stages = ["before_tool"]
"""


def call(number: int) -> dict[str, Any]:
    """The params of a call."""
    return {"tool": "bash", "tool_call_id": str(number), "arguments": {"command": f"ls -la src/{number}"}}


def write(record: Path, calls: int) -> None:
    """Write a record as a host writes it."""
    with record.open("w", encoding="utf-8") as file:

        def line(kind: str, **keys: Any) -> None:
            file.write(json.dumps({"type": kind, "at": 1.0, **keys}) + "\n")

        file.write('{"type":"record","version":1,"time":"2026-01-01T00:00:00+00:00","picohook":"0"}\n')
        line("hook", hook="guard", runs="guard", settings={"stages": ["before_tool"]})
        for number in range(1, calls + 1):
            line("begin", chain=number, stage="before_tool", params=call(number))
            line("ask", chain=number, hook="guard")
            line("answer", chain=number, hook="guard", action="continue", seconds=0.0001)
            line("end", chain=number, action="continue")
        line("close")


def live(config: Path, calls: int) -> float:
    """How many calls a second a host asks about."""

    async def ask() -> float:
        async with Host.from_config(config) as host:
            await host.before_tool(call(0))
            begun = time.perf_counter()
            for number in range(calls):
                await host.before_tool(call(number))
            return calls / (time.perf_counter() - begun)

    with garbage_collected_rarely():
        return anyio.run(ask, backend_options={"use_uvloop": has_uvloop()})


def replayed(config: Path, record: Path, calls: int) -> float:
    """How many calls a second a back-test asks about, from the start of the command to its end."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "picohook", "replay", str(record), "--against", str(config)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{calls} decisions, 0 changed\n", done.stdout
    return calls / (time.perf_counter() - begun)


def main() -> None:
    """Measure, and print the ratio."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as directory:
        config, record = Path(directory, "picohook.toml"), Path(directory, "record.jsonl")
        config.write_text(CONFIG, encoding="utf-8")
        write(record, calls)
        ratios = []
        for _ in range(ROUNDS):
            asked, again = live(config, calls), replayed(config, record, calls)
            ratios.append(again / asked)
            print(f"live {asked:,.0f} calls a second, back-test {again:,.0f}: {again / asked:.2f}", flush=True)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"back-test against live: {median(ratios):.2f} (at least 0.5), memory {memory} MiB")


if __name__ == "__main__":
    main()
