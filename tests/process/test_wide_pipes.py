"""Lines that are longer than a pipe: it holds more while one goes through it, and no longer."""

from __future__ import annotations

import fcntl
import os
import socket
import sys

import anyio
import pytest

from picohook import HookSpec, Host, Timeouts, ToolCall
from picohook.transport.pipe import CHUNK, MOST_WIDE, WIDE, LinePipe
from picohook.transport.reactor import current_reactor

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes cannot be resized here"),
]

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)

TELLS_ITS_PIPES = """
import fcntl, json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    given = message["params"].get("arguments", {})
    sizes = [fcntl.fcntl(number, fcntl.F_GETPIPE_SZ) for number in (0, 1)]
    result = {"action": "continue", "reason": json.dumps(sizes)}
    if "say" in given:
        result = {"action": "modify", "call": {"tool": "bash", "arguments": {"said": "y" * given["say"]}}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
async def host():
    spec = HookSpec(name="h", command=[sys.executable, "-S", "-c", TELLS_ITS_PIPES], stages=["before_tool"])
    async with Host([spec], timeouts=FAR) as host:
        yield host


async def sizes(host: Host, text: str = "") -> str:
    """What the hook's stdin and stdout can hold when it has read the call."""
    (entry,) = (await host.before_tool(ToolCall(tool="bash", arguments={"text": text}))).trail
    return entry.reason


async def test_a_long_request_goes_through_a_wide_pipe_and_the_next_one_finds_it_as_it_was(host):
    assert await sizes(host) == f"[{CHUNK}, {CHUNK}]"
    assert await sizes(host, "x" * 500_000) == f"[{WIDE}, {CHUNK}]"
    assert await sizes(host) == f"[{CHUNK}, {CHUNK}]"


async def test_a_long_answer_leaves_the_pipe_as_it_was(host):
    outcome = await host.before_tool(ToolCall(tool="bash", arguments={"say": 3_000_000}))
    assert outcome.payload.arguments == {"said": "y" * 3_000_000}
    assert await sizes(host) == f"[{CHUNK}, {CHUNK}]"


async def test_a_pipe_that_gives_all_that_a_read_takes_is_wide_until_it_gives_less():
    read, write = os.pipe()
    other_read, other_write = os.pipe()
    os.set_blocking(read, False)
    arrived, more = anyio.Event(), anyio.Event()
    seen = []

    def received(data: bytes) -> None:
        seen.append((len(data), fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)))
        (more if arrived.is_set() else arrived).set()

    pipe = LinePipe(current_reactor(), read, other_write, on_data=received, on_end=lambda: None)
    os.write(write, b"x" * CHUNK)
    await arrived.wait()
    os.write(write, b"\n")
    await more.wait()
    assert seen == [(CHUNK, WIDE), (1, CHUNK)]
    pipe.close_read()
    pipe.close_write()
    os.close(write)
    os.close(other_read)


async def test_only_so_many_pipes_of_a_process_are_wide_at_once():
    pipes, others = [], []
    for _ in range(MOST_WIDE + 1):
        (read, other_write), (other_read, write) = os.pipe(), os.pipe()
        pipes.append(LinePipe(current_reactor(), read, write, on_data=lambda _: None, on_end=lambda: None))
        others += [other_read, other_write]
    assert [pipe.widen() for pipe in pipes] == [True] * MOST_WIDE + [False]
    pipes[0].close_write()
    assert pipes[-1].widen()
    for pipe in pipes:
        pipe.close_read()
        pipe.close_write()
    for descriptor in others:
        os.close(descriptor)


async def test_what_is_no_pipe_stays_as_it_is():
    ours, theirs = socket.socketpair()
    pipe = LinePipe(
        current_reactor(), os.dup(ours.fileno()), ours.detach(), on_data=lambda _: None, on_end=lambda: None
    )
    assert not pipe.widen()
    pipe.close_read()
    pipe.close_write()
    theirs.close()
