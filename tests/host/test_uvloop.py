"""The same on uvloop: a whole life with calls, events, a crash, a flood, a full pipe and a stop."""

from __future__ import annotations

import asyncio

import pytest
from scripted import HANG, HELLO, SERVE, children, descriptors, scripted

from picohook import Host, Timeouts, ToolCall

pytest.importorskip("uvloop")
pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


@pytest.mark.parametrize("stdio", ["pipe", "socket"])
async def test_a_whole_life_on_uvloop(stdio, board):
    assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    before = descriptors()
    hooks = [
        scripted("a", board.call("a"), SERVE, stages=("before_tool", "approve_tool"), observe=("*",), stdio=stdio),
        scripted("b", HELLO, ["ignore", "SIGTERM"], HANG, timeout=0.05, grace=0.1, priority=200),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        first = await board.line("a")
        for nonce in range(5):
            assert (await host.before_tool(asking(nonce=nonce, who="a"))).payload.arguments == {"echo": nonce}
        big = await host.before_tool(asking(nonce="x" * 1_000_000, who="a"))
        assert len(big.payload.arguments["echo"]) == 1_000_000
        await host.emit_and_wait("turn_start")
        assert "turn_start" in await first.said()
        assert "it exited with code 3" in (await host.before_tool(asking(["exit", 3], who="a"))).trail[0].error
        await first.dead()
        first.close()
        second = await board.line("a")
        assert (await host.approve_tool(asking(["flood", 2, "x\n", 5000]))).approved
        host.restart("a")
        assert (await host.approve_tool(asking())).approved
        await second.dead()
        second.close()
        (await board.line("a")).close()
    assert not children()
    assert descriptors() <= before + 2  # uvloop keeps a pair of its own
