"""Lines that are longer than a pipe: it holds more from the first one on."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest

from picohook import Deny, HookCrashedError, HookSpec, Host, Timeouts, ToolCall
from picohook.model.stages import STAGES
from picohook.observe.log import Log
from picohook.transport.channel import Channel, HookCounters
from picohook.transport.event_loop import current_reactor
from picohook.transport.pipe import CHUNK, MOST_WIDE, WIDE, LinePipe

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


async def test_a_long_request_and_a_long_answer_each_widen_their_pipe(host):
    assert await sizes(host) == f"[{CHUNK}, {CHUNK}]"
    assert await sizes(host, "x" * 500_000) == f"[{WIDE}, {CHUNK}]"
    outcome = await host.before_tool(ToolCall(tool="bash", arguments={"say": 3_000_000}))
    assert outcome.payload.arguments == {"said": "y" * 3_000_000}
    assert await sizes(host) == f"[{WIDE}, {WIDE}]"


class Pipes:
    """Pairs of pipes as hooks have them, and what the other side of each holds."""

    def __init__(self, count: int) -> None:
        self.ours, self.theirs = [], []
        for _ in range(count):
            (read, other_write), (other_read, write) = os.pipe(), os.pipe()
            os.set_blocking(write, False)
            self.ours.append(LinePipe(current_reactor(), read, write, on_data=lambda _: None, on_end=lambda: None))
            self.theirs.append((other_read, other_write))

    def close(self) -> None:
        for pipe in self.ours:
            pipe.close_read()
            pipe.close_write()
        for pair in self.theirs:
            for descriptor in pair:
                os.close(descriptor)


@pytest.fixture
async def pipes():
    pipes = Pipes(MOST_WIDE + 1)
    yield pipes
    pipes.close()


async def test_the_number_of_wide_pipes_of_a_process_is_limited(pipes):
    for pipe in pipes.ours[:-1]:
        assert pipe.widen()
    assert not pipes.ours[-1].widen()
    pipes.ours[0].close_write()
    assert pipes.ours[-1].widen()


FORKS = """
import asyncio, os
from picohook.transport.pipe import CHUNK, MOST_WIDE, LinePipe
from picohook.transport.event_loop import current_reactor

def pair(reactor):
    (read, _), (_, write) = os.pipe(), os.pipe()
    return LinePipe(reactor, read, write, on_data=print, on_end=print)

async def main():
    reactor = current_reactor()
    pipes = [pair(reactor) for _ in range(MOST_WIDE)]
    for pipe in pipes:
        assert pipe.widen()
    child = os.fork()
    if not child:
        os._exit(0 if pair(reactor).widen() else 3)
    assert os.waitpid(child, 0)[1] == 0, "the child could widen none of its own"
    assert not pair(reactor).widen()

asyncio.run(main())
"""


def test_a_forked_child_has_places_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKS], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_last_answer_in_a_wide_pipe_is_read_before_the_process_counts_as_ended():
    """It dies as soon as it has written it, and its lines may not be long."""
    (stdout, its_stdout), (its_stdin, stdin) = os.pipe(), os.pipe()
    for descriptor in (stdout, its_stdout, stdin):
        os.set_blocking(descriptor, False)
    reactor = current_reactor()
    channel = Channel(
        reactor,
        stdout,
        stdin,
        name="h",
        log=Log(),
        counters=HookCounters(),
        read=lambda _, answer: answer.result,
        on_fault=lambda _: None,
        max_line=1000,
    )
    answers, greeted = [], anyio.Event()

    async def greet():
        await channel.hello([], reactor.now() + 60)
        greeted.set()

    async def ask():
        now = reactor.now()
        answers.append(await channel.call(STAGES["before_tool"], b"{}", now + 60, now + 60, now))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(greet)
        await anyio.wait_all_tasks_blocked()
        os.write(its_stdout, b'{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"log":true}}}\n')
        await greeted.wait()
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        said = b'{"jsonrpc":"2.0","method":"host.log","params":{"message":"%s"}}\n' % (b"m" * 440)
        os.write(its_stdout, said * (CHUNK // len(said)) + b" " * (CHUNK % len(said)))
        while fcntl.fcntl(stdout, fcntl.F_GETPIPE_SZ) != WIDE:
            await anyio.lowlevel.checkpoint()
        last = said * 400 + b'{"jsonrpc":"2.0","id":2,"result":{"action":"deny_tool"}}\n'
        assert os.write(its_stdout, last) == len(last)
        os.close(its_stdout)
        channel.drain()
        channel.close(HookCrashedError("it ended", hook="h"))
    assert answers == [Deny()]
    channel.release()
    os.close(its_stdin)


async def test_a_descriptor_that_is_not_a_pipe_is_left_alone():
    ours, theirs = socket.socketpair()
    pipe = LinePipe(
        current_reactor(), os.dup(ours.fileno()), ours.detach(), on_data=lambda _: None, on_end=lambda: None
    )
    assert not pipe.widen()
    pipe.close_read()
    pipe.close_write()
    theirs.close()
