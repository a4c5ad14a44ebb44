"""`picohook control` on the command line."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
import preloaded
import pytest
from anyio.streams.text import TextReceiveStream
from scripted import PATIENCE, SERVE, command, scripted

from picohook import Deny, FunctionHook, Host, ToolCall

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash")


def line(*arguments):
    return [sys.executable, "-m", "picohook", "control", *map(str, arguments)]


async def control(*arguments, code=0):
    """What it prints: on stdout if it went well, else on stderr."""
    start = partial(preloaded.run, line(*arguments)[3:], env={**os.environ, "NO_COLOR": "1"}, timeout=PATIENCE)
    done = await anyio.to_thread.run_sync(start)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    if code:
        return done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def rows(text):
    return [row.split() for row in text.splitlines() if row.strip()]


async def test_status(path):
    async with Host([scripted("one")], control=path) as host:
        await host.before_tool(CALL)
        (one,) = host.status().hooks
        text = await control("status", "--control", path)
        assert rows(text) == [
            ["hook", "state", "pid", "starts", "calls", "failures", "last", "error"],
            ["one", "ready", str(one.pid), "1", "1", "0"],
        ]
        shown = json.loads(await control("status", "--control", path, "--json"))
        assert [hook["name"] for hook in shown["hooks"]] == ["one"]


async def test_list(path):
    hooks = [
        scripted("late", priority=9),
        scripted("early", priority=1),
        scripted("watcher", stages=(), observe=("error",)),
    ]
    async with Host(hooks, control=path):
        assert rows(await control("list", "--control", path)) == [
            ["before_tool"],
            ["hook", "layer", "timeout"],
            ["early", "user", "5", "s"],
            ["late", "user", "5", "s"],
            ["events"],
            ["hook", "layer", "kinds"],
            ["watcher", "user", "error"],
        ]
        shown = json.loads(await control("list", "--control", path, "--json"))
        assert [hook["hook"] for hook in shown["stages"]["before_tool"]] == ["early", "late"]


async def test_metrics(path):
    async with Host([scripted("one")], control=path):
        text = await control("metrics", "--control", path)
        assert 'picohook_up{hook="one"} 1.0\n' in text
        assert json.loads(await control("metrics", "--control", path, "--json")) == text


async def test_reload(path, tmp_path):
    config = tmp_path / "picohook.toml"

    def write(**hooks):
        config.write_text(
            "".join(
                f"[hooks.{name}]\nstages = ['before_tool']\ncommand = {json.dumps(argv)}\n"
                for name, argv in hooks.items()
            )
        )

    write(one=command(SERVE))
    async with Host.from_config(config, control=path):
        write(two=command(SERVE))
        assert rows(await control("reload", "--control", path)) == [["added", "two"], ["removed", "one"]]
        assert json.loads(await control("reload", "--control", path, "--json"))["kept"] == ["two"]
        write(two=command(["exit", 3]))
        assert "two does not start: it exited with code 3" in await control("reload", "--control", path, code=1)
        config.write_text("[hooks.two]\n")
        errors = (await control("reload", "--control", path, code=1)).splitlines()
        assert errors
        assert all(error.startswith(f"Error: {config}: hooks.two") for error in errors)


async def test_reset_and_restart(path, board, tmp_path, journal):
    late = tmp_path / "late"
    failed = scripted("failed").model_copy(update={"command": (str(late),)})
    async with Host([scripted("one", board.call("one"), SERVE), failed], control=path, logger=journal):
        old = await board.line("one")
        assert await control("restart", "one", "--control", path) == ""
        await old.dead()
        await board.line("one")
        late.write_text(f"#!/bin/sh\nexec {shlex.join(command(SERVE))}\n")
        late.chmod(0o755)
        assert await control("reset", "failed", "--control", path, "--json") == "true\n"
        await journal.seen("ready", hook="failed")
        assert await control("reset", "on", "--control", path, code=1) == (
            "Error: no hook named 'on' is mounted: did you mean 'one'?\n"
        )


async def test_watch_shows_changes_until_it_is_interrupted(path):
    hook = FunctionHook(
        "no", {"before_tool": lambda _: Deny(reason="not\x1b[31m today"), "approve_tool": lambda _: True}
    )
    async with (
        Host([hook], control=path) as host,
        await anyio.open_process(line("watch", "--control", path), stderr=subprocess.STDOUT) as process,
    ):
        with anyio.fail_after(PATIENCE):
            while not host.on_change:
                await anyio.lowlevel.checkpoint()
            await host.before_tool(CALL)
            await host.approve_tool(CALL)
            await host.mount(scripted("one"))
            text = ""
            output = TextReceiveStream(process.stdout)
            while "ready" not in text:
                text += await output.receive()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
        pid = host.status().hooks[1].pid
        assert text.splitlines() == [
            "outcome   stage: before_tool, action: deny_tool, hook: no, reason: not\\x1b[31m today",
            "outcome   stage: approve_tool, action: continue, approved: true",
            "state     hook: one, state: starting",
            f"state     hook: one, state: ready, pid: {pid}",
        ]


async def test_watch_says_that_the_host_is_gone_and_prints_json(path):
    async with await anyio.open_process(line("watch", "--json", "--control", path)) as early:
        assert await early.wait() == 1
    async with Host(control=path) as host:
        process = await anyio.open_process(line("watch", "--json", "--control", path))
        while not host.on_change:
            await anyio.lowlevel.checkpoint()
        await host.before_tool(CALL)
        with anyio.fail_after(PATIENCE):
            shown = await TextReceiveStream(process.stdout).receive()
    async with process:
        with anyio.fail_after(PATIENCE):
            errors = [part async for part in TextReceiveStream(process.stderr)]
            assert await process.wait() == 1
    assert json.loads(shown) == {
        "kind": "outcome",
        "stage": "before_tool",
        "action": "continue",
        "hook": "",
        "reason": "",
        "trail": [],
    }
    assert "closed the connection" in "".join(errors)


async def test_a_path_without_a_server_is_an_error_that_names_it(path):
    assert await control("status", "--control", path, code=1) == f"Error: no host has its control socket at {path}\n"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert await control("status", "--control", path, code=1) == f"Error: no host has its control socket at {path}\n"


async def test_something_else_at_the_path_is_an_error(path):
    path.write_text("no socket")
    assert "no host has its control socket at" in await control("status", "--control", path, code=1)


async def test_a_server_that_hangs_up_is_an_error(path):
    with socket.create_server(str(path), family=socket.AF_UNIX) as server:
        server.setblocking(False)

        async def hang_up():
            await anyio.wait_readable(server)
            server.accept()[0].close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang_up)
            assert (await control("status", "--control", path, code=1)).startswith("Error: ")


async def test_the_path_is_needed():
    assert "--control" in await control("status", code=2)
