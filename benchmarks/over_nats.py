"""Hooks that workers serve over NATS, against bare request and reply with the same body.

The bare client sends a body that was encoded once, and its responder reads nothing of it. A host encodes each question, and its
worker reads and checks it, asks a Python function about a copy, and answers. Both responders run on uvloop.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picohook import HookSpec, Host, NatsSettings

from .clients import line
from .given import CALL, FAR, HOOKS, Given, on
from .measure import Row, Times, alternate, each, micros, p50

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from picohook import Outcome

AT_ONCE = 64
WORKERS = (1, 2, 4)
WHY = "the worker reads, checks and copies each question, on processors that server, host and workers share"


@contextlib.contextmanager
def running(*command: str, said: str, **options: Any) -> Iterator[None]:
    """A program that runs in this block, from when it said so."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options) as process:
        assert process.stdout is not None
        try:
            for text in process.stdout:
                if said in text:
                    break
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A NATS server. Returns its URL."""
    program = os.environ.get("PICOHOOK_NATS_SERVER") or shutil.which("nats-server")
    assert program is not None, "there is no nats-server"
    command = [program, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"]
    with tempfile.TemporaryDirectory() as ports, running(*command, ports, said="Server is ready"):
        files: list[Path] = []
        while not files:
            time.sleep(0.01)
            files = list(Path(ports).iterdir())
        yield json.loads(files[0].read_text())["nats"][0]


@contextlib.contextmanager
def workers(url: str, count: int, name: str = "policy") -> Iterator[None]:
    """So many workers that serve a hook."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as opened:
        shutil.copy(HOOKS / "nats_policy.py", directory)
        file = Path(directory, "picohook.toml")
        file.write_text(
            f'[nats]\nservers = ["{url}"]\n[hooks.{name}]\npython = "nats_policy:check"\nstages = ["before_tool"]\n'
        )
        command = [sys.executable, "-m", "picohook", "worker", "--config", str(file), "--max-in-flight", "1000"]
        for _ in range(count):
            opened.enter_context(running(*command, said="Serving"))
        yield


def asking(url: str, name: str = "policy") -> HookSpec:
    """The hook of a host that asks them."""
    return HookSpec(name=name, nats=name, connection=NatsSettings(servers=(url,)), stages=("before_tool",))


async def _sides(given: Given, url: str, at_once: int, names: Sequence[str]) -> Times:
    import nats

    client = await nats.connect(url)
    body = line(1, "hook.before_tool", CALL.wire()).rstrip()

    async def bare() -> None:
        await client.request("bare", body, timeout=60)

    measure = partial(p50, given.times(2000)) if at_once == 1 else partial(each, given.times(3000), at_once)
    async with contextlib.AsyncExitStack() as opened:
        timed = {"bare": measure(bare)}
        for name in names:
            host = await opened.enter_async_context(Host([asking(url, name)], timeouts=FAR))

            async def ask(host: Host = host) -> Outcome[Any]:
                outcome = await host.before_tool(CALL)
                assert outcome.trail[0].failure is None, outcome.reason
                return outcome

            timed[name] = measure(ask)
        times = await alternate(given.rounds, **timed)
    await client.close()
    return times


def over_nats(given: Given) -> list[Row]:
    """A round trip, and many at once with one, two and four workers."""
    rows = []
    with server() as url, running(sys.executable, str(HOOKS / "nats_echo.py"), url, "uvloop", said="ready"):
        with workers(url, 1):
            for loop in ("asyncio", "uvloop"):
                at = on(loop, partial(_sides, given, url, 1, ["policy"]))
                detail = {f"{name}_us": micros(took) for name, took in at.items()}
                what = f"round trip over NATS, {loop}, against bare request and reply"
                rows.append(Row(what, at.ratio("policy", "bare"), must=2.2, detail=detail, why=WHY))
        names = [f"policy{count}" for count in WORKERS]
        with contextlib.ExitStack() as opened:
            for name, count in zip(names, WORKERS, strict=True):
                opened.enter_context(workers(url, count, name))
            at = on("uvloop", partial(_sides, given, url, AT_ONCE, names))
        detail = {f"{name}_a_second": round(1 / took) for name, took in at.items()}
        what = f"{AT_ONCE} calls at once over NATS, one worker, against bare request and reply"
        rows.append(Row(what, at.ratio(names[0], "bare"), must=3, detail=detail, why=WHY))
    return rows
