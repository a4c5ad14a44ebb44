"""`python -m benchmarks.shadows [CALLS]`: what a hook in shadow that hangs, floods or crashes costs the host's calls.

Hosts take turns: one asks a hook on the SDK alone, the others have a hook in shadow beside it. Each is started anew, and
measured once the hook in shadow does what it does. The ratio of the time of a call has to be at most 1.02. That of
the host's own time on the processor is printed, too: it changes less on a machine that does other things.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import anyio

from picohook import HookSpec, Host, ToolCall
from picohook.cli.host import garbage_collected_rarely, has_uvloop

ROUNDS = 25
SETTLES = 1.0
"""Seconds before the calls are counted."""
HOOK = Path(__file__).parent / "hooks" / "sdk.py"
DOES = {
    "none": "",
    "hangs": "time.sleep(999)",
    "floods": "while True: os.write(1, b'x' * 65536); os.write(2, b'x' * 65536)",
    "crashes": "os._exit(3)",
}
CALL = ToolCall(tool="bash", arguments={"command": "ls -la src"}, tool_call_id="1")


async def measured(does: str, directory: str, calls: int) -> tuple[float, float]:
    """The seconds of a call, and the host's seconds on the processor."""
    command, env = (sys.executable, "-S", str(HOOK)), {"PYTHONPATH": str(HOOK.parents[2])}
    guard = HookSpec(name="guard", command=command, env=env, stages=("before_tool",), required=True)
    hooks = [guard]
    if DOES[does]:
        hooks.append(
            HookSpec(name="shadow", python=f"{does}:decide", dir=directory, stages=("before_tool",), mode="shadow")
        )
    async with Host(hooks) as host:
        end = time.monotonic() + SETTLES
        while time.monotonic() < end:
            await host.before_tool(CALL)
        begun, busy = time.perf_counter(), time.process_time()
        for _ in range(calls):
            await host.before_tool(CALL)
        return (time.perf_counter() - begun) / calls, (time.process_time() - busy) / calls


def main() -> None:
    """Measure, and print the ratios."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    ratios: dict[str, list[tuple[float, float]]] = {does: [] for does in DOES if DOES[does]}
    with tempfile.TemporaryDirectory() as directory, garbage_collected_rarely():
        for does, body in DOES.items():
            Path(directory, f"{does}.py").write_text(
                f"import os, time\ndef decide(call):\n    {body}\n", encoding="utf-8"
            )
        for _ in range(ROUNDS):
            order = random.sample([*DOES], len(DOES))
            found = {
                does: anyio.run(measured, does, directory, calls, backend_options={"use_uvloop": has_uvloop()})
                for does in order
            }
            wall, busy = found.pop("none")
            for does, (of_wall, of_busy) in found.items():
                ratios[does].append((of_wall / wall, of_busy / busy))
            print(".", end="", flush=True)
    print()
    for does, pairs in ratios.items():
        walls, own = zip(*pairs, strict=True)
        print(
            f"a shadow that {does}: a call {median(walls):.3f}, the host's processor {median(own):.3f} (at most 1.02)"
        )


if __name__ == "__main__":
    main()
