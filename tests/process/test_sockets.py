"""`stdio = "socket"`: what other processes can do with a hook's streams, and that all else is as it is with pipes."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys

import anyio
import pytest
from scripted import HANG, HELLO, SERVE, children, descriptors, scripted

from picohook import HookSpec, Host, Timeouts, ToolCall
from picohook.process.child import _sockets

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


@pytest.mark.parametrize(("stdio", "comes_of_it"), [("pipe", "forged"), ("socket", errno.ENXIO)])
async def test_another_program_can_forge_an_approval_through_a_pipe_and_not_through_a_socket(
    stdio, comes_of_it, contain, board
):
    hook = scripted(
        "approver", board.call("approver"), SERVE, stages=("approve_tool",), stdio=stdio, contain=contain, grace=0.1
    )
    came = []
    async with Host([hook], timeouts=FAR) as host:
        line = await board.line("approver")

        async def forge():
            assert await line.said() == "asked"
            yes = {"jsonrpc": "2.0", "id": 2, "result": {"approved": True}}
            try:
                fd = os.open(f"/proc/{line.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                came.append(error.errno)
                line.go_on()
            else:
                os.write(fd, json.dumps(yes).encode() + b"\n")
                os.close(fd)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(forge)
            outcome = await host.approve_tool(asking(["tell", "asked"], ["wait"], ["exit", 3]))
        assert (came or ["forged"]) == [comes_of_it]
        assert outcome.approved == (comes_of_it == "forged")


async def test_with_sockets_it_serves_as_with_pipes_and_only_its_stderr_is_a_pipe(board):
    before = descriptors()
    hooks = [
        scripted("a", board.call("a"), SERVE, stages=("before_tool", "approve_tool"), observe=("*",), stdio="socket"),
        scripted("deaf", HELLO, HANG, timeout=0.05, grace=0.05, priority=200, stdio="socket"),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        first = await board.line("a")
        kinds = [stat.S_IFMT(os.stat(f"/proc/{first.pid}/fd/{fd}").st_mode) for fd in range(3)]
        assert kinds == [stat.S_IFSOCK, stat.S_IFSOCK, stat.S_IFIFO]

        # Lines that are longer than a socket takes at once, in both directions, and to one that reads nothing.
        big = await host.before_tool(asking(nonce="x" * 3_000_000, who="a"))
        assert len(big.payload.arguments["echo"]) == 3_000_000
        assert [entry.failure for entry in big.trail] == [None, "timeout"]
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(host.before_tool, asking(nonce=1, who="a"))
        await host.emit_and_wait("turn_start")
        assert "turn_start" in await first.said()

        # Its end is seen, and who closes its input is known.
        assert "it exited with code 3" in (await host.before_tool(asking(["exit", 3], who="a"))).trail[0].error
        await first.dead()
        first.close()
        second = await board.line("a")
        assert (await host.approve_tool(asking())).approved
    await second.dead()  # at the end of its stdin
    second.close()
    assert not children()
    assert descriptors() == before


LAST = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": {}} if request["method"] == "hook.hello" else {"result": {"approved": True, "reason": "y" * 150_000}}
    data = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode() + b"\\n"
    while data:
        data = data[os.write(1, data):]
    if request["method"] != "hook.hello":
        os.kill(os.getpid(), 9)
"""


async def test_the_last_answer_of_one_that_dies_counts():
    """With bytes in its input that it has not read, at which a socket of both directions would be reset."""
    command = (sys.executable, "-I", "-S", "-c", LAST)
    hook = HookSpec(name="h", command=command, stages=("approve_tool",), stdio="socket", grace=0.1)
    async with Host([hook], timeouts=FAR) as host:
        outcomes = []

        async def ask():
            outcomes.append(await host.approve_tool(asking(nonce="x" * 10_000)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert sorted(outcome.approved for outcome in outcomes) == [False, True]


async def test_a_shell_command_has_sockets_too_and_cannot_open_them_by_name():
    run = "cat; echo x > /dev/stdout"
    hooks = [
        HookSpec(name=stdio, run=run, stages=("before_tool",), stdio=stdio, on_failure="deny")
        for stdio in ("pipe", "socket")
    ]
    for hook, says in zip(hooks, (False, True), strict=True):
        async with Host([hook], timeouts=FAR) as host:
            outcome = await host.before_tool(asking())
            assert ("No such device" in str(outcome.trail[0].error)) == says


def test_a_socket_in_place_of_a_pipe_goes_in_one_direction():
    readable, writable = _sockets()
    try:
        os.write(writable, b"x")
        assert os.read(readable, 9) == b"x"
        with pytest.raises(BrokenPipeError):
            os.write(readable, b"x")
    finally:
        os.close(readable)
        os.close(writable)
