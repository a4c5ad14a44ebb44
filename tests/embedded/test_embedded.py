"""A host in every way in which programs run one: everything that uses a socket, a thread or a watch works in each."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
import toolchains

from picohook import Host

PROGRAM = Path(__file__).with_name("everything.py")
WAYS = ("asyncio.run", "anyio.run on asyncio", "anyio.run on trio", "uvloop.run", "FastAPI under uvicorn")


@pytest.mark.parametrize("way", WAYS)
def test_everything_works_however_the_program_runs_its_event_loop(way, tmp_path):
    assert find_spec("sniffio"), "without it nothing is shown: it is what finds no event loop in a callback"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PICOHOOK_"))}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), way, str(tmp_path)], capture_output=True, text=True, check=False, env=clean
    )
    assert done.returncode == 0, done.stderr
    came_of = json.loads(done.stdout)
    assert len(came_of) == 13
    assert {what: how for what, how in came_of.items() if how != "ok"} == {}
    assert not toolchains.without_notices(done.stderr)


def test_a_callback_of_plain_asyncio_can_begin_work_of_the_host():
    done = []

    async def work():
        await anyio.sleep(0)
        done.append("done")

    async def leave_before_it_runs():
        async with Host() as host:
            asyncio.get_running_loop().call_soon(host.begin_task, anyio.sleep_forever)
            await asyncio.sleep(0)

    async def wait_for_it():
        async with Host() as host:
            begun = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(lambda: begun.set_result(host.begin_task(work)))
            await (await begun).result()

    asyncio.run(leave_before_it_runs())
    asyncio.run(wait_for_it())
    assert done == ["done"]
