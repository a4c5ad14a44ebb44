"""What there is to pay once: memory, imports, and starts."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from picohook import Host

from .clients import Pipe, line
from .given import CALL, FAR, HOOKS, PLAIN, Given, hook, on
from .measure import Row, Timed, Times, alternate, blocking, on_one_core

MEMORY = """
import json, os, sys, threading
import anyio
from picohook import Host, HookSpec

def kib():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])

async def main():
    async with Host(timeouts=None) as host:
        seen = []
        for number in range(220):
            await host.mount(HookSpec(name=f"h{number}", command=[sys.argv[1]], stages=["before_tool"], contain="group"))
            if number in (19, 219):
                seen.append((kib(), len(os.listdir("/proc/self/task"))))
        print(json.dumps({"kib": (seen[1][0] - seen[0][0]) / 200, "threads": seen[1][1] - seen[0][1]}))

anyio.run(main)
"""


def memory(given: Given) -> list[Row]:
    """What the host has for each hook process."""
    done = subprocess.run([sys.executable, "-c", MEMORY, given.echo], capture_output=True, check=True)
    seen = json.loads(done.stdout)
    return [
        Row("host memory for an idle hook process", seen["kib"], "KiB", must=100),
        Row("threads for a hook process", seen["threads"], "", must=0),
    ]


def _private(pid: int) -> float:
    """The KiB of memory that this process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def processes(given: Given) -> list[Row]:
    """What the hooks' own processes have, after a question."""
    rows = []
    sdk = [sys.executable, "-S", str(HOOKS / "sdk.py")]
    for what, command in (
        ("in C", [given.echo]),
        ("in plain Python", PLAIN),
        ("on the SDK", ["env", f"PYTHONPATH={HOOKS.parents[1]}", *sdk]),
    ):
        pipe = Pipe(command)
        pipe.ask(line(2, "hook.before_tool", CALL.wire()))
        rows.append(Row(f"memory of a hook's process, {what}", _private(pipe.pid), "KiB"))
        pipe.close()
    return rows


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _processor_time() -> float:
    """The processor time of all processes that have ended. Unlike the time that passes, a busy machine leaves it as it is."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def imports(given: Given) -> list[Row]:
    """What imports and commands cost."""
    with TemporaryDirectory() as directory:
        model = Path(directory) / "model.py"
        model.write_text("from pydantic import BaseModel\nclass Model(BaseModel):\n    name: str\n")
        ours = Path(directory) / "ours.py"
        ours.write_text("from picohook import Host\n")
        typer = Path(directory) / "with_typer.py"
        typer.write_text("import typer\n" + model.read_text())
        config = Path(directory) / "picohook.toml"
        config.write_text('[hooks.guard]\ncommand = ["cat"]\nstages = ["before_tool"]\n')
        count = given.times(5)

        def program(*arguments: str) -> Timed:
            return blocking(partial(_run, sys.executable, *arguments), count, _processor_time)

        with on_one_core():
            at = on(
                "asyncio",
                partial(
                    alternate,
                    given.rounds,
                    model=program(str(model)),
                    host=program(str(ours)),
                    nothing=program("-c", "pass"),
                    version=program("-m", "picohook", "--version"),
                    typer=program(str(typer)),
                    check=program("-m", "picohook", "check", str(config)),
                ),
            )
    detail = {f"{name}_ms": round(taken * 1e3, 1) for name, taken in at.items()}
    return [
        Row(
            "from picohook import Host, against one pydantic model",
            at.ratio("host", "model"),
            must=1.45,
            detail=detail,
            why="the model takes most of it; structlog, anyio and the host's own modules the rest",
        ),
        Row(
            "picohook check of a small file, against typer and one pydantic model",
            at.ratio("check", "typer"),
            must=1.5,
            detail=detail,
        ),
        Row(
            "picohook --version, against python -c pass",
            at.ratio("version", "nothing"),
            must=3,
            detail=detail,
        ),
    ]


async def _starting(given: Given) -> Times:
    async def start(number: int) -> float:
        begun = time.perf_counter()
        async with Host([hook(f"h{place}", "sh", str(HOOKS / "slow.sh")) for place in range(number)], timeouts=FAR):
            return time.perf_counter() - begun

    return await alternate(min(given.rounds, 3), one=partial(start, 1), twenty=partial(start, 20))


def starting(given: Given) -> list[Row]:
    """Twenty hooks that are slow to start."""
    at = on("asyncio", partial(_starting, given))
    detail = {f"{name}_ms": round(taken * 1e3) for name, taken in at.items()}
    return [
        Row(
            "start of 20 hooks that take 300 ms to say hello, against 1",
            at.ratio("twenty", "one"),
            must=2.2,
            detail=detail,
            why="sixteen start at once on two processors, so that each says hello in time; the last four wait",
        )
    ]


def sdk_start(given: Given) -> list[Row]:
    """The start: a process that reads the end of its input at once."""
    environment = {"PYTHONPATH": str(HOOKS.parents[1])}

    def run(*command: str) -> None:
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment)

    count = given.times(10)
    with on_one_core():
        at = on(
            "asyncio",
            partial(
                alternate,
                given.rounds,
                plain=blocking(partial(run, *PLAIN), count),
                sdk=blocking(partial(run, sys.executable, "-S", str(HOOKS / "sdk.py")), count),
            ),
        )
    detail = {f"{name}_ms": round(taken * 1e3, 1) for name, taken in at.items()}
    return [
        Row(
            "start of a hook on the SDK, beyond a plain loop's",
            (at["sdk"] - at["plain"]) * 1e3,
            "ms",
            must=25,
            detail=detail,
        )
    ]
