"""What is left behind for the garbage collector: nothing, so that memory is free as soon as it is of no more use."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import weakref

import anyio
import pytest
from loops import both

from picohook import HookCrashedError, HookSpec, Host, RestartPolicy, Timeouts, ToolCall
from picohook.errors import HandshakeError
from picohook.ext.control.control import DISPATCHER, ControlContext
from picohook.model.filters import Filter
from picohook.observe.log import Log
from picohook.rpc.connection import Connection, ConnectionLimits, two_descriptors
from picohook.transport.channel import Channel, HookCounters
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)

ANSWERS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": {}} if request["method"] == "hook.hello" else request["params"]["arguments"]["answer"]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"result": {"action": "continue"}}, None),
        ({"result": {"action": "modify", "call": {"tool": "other"}}}, None),
        ({"result": {"action": "explode"}}, "reply"),
        ({"result": 5}, "reply"),
        ({"result": 5, "error": 5}, "reply"),
        ({"error": {"code": -32000, "message": "no"}}, "refused"),
    ],
)
async def test_a_call_leaves_no_cycles_of_objects_behind(answer, failure):
    call = ToolCall(tool="bash", arguments={"answer": answer})
    hook = HookSpec(name="h", command=(sys.executable, "-c", ANSWERS), stages=("before_tool",))
    async with Host([hook], timeouts=FAR) as host:
        assert (await host.before_tool(call)).trail[0].failure == failure
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(20):
                await host.before_tool(call)
            gc.collect()
            left = [type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("picohook")]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == []


@contextlib.contextmanager
def without_a_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


LIVES = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    answer = {} if request["method"] == "hook.hello" else {"action": "continue"}
    match request["params"].get("arguments", {}).get("do"):
        case "die":
            os.write(1, b"x" * 300_000)
            os._exit(3)
        case "hang":
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)
"""


def lives(name, **settings):
    command = (sys.executable, "-I", "-S", "-c", LIVES)
    many = RestartPolicy(max_starts=1000)
    return HookSpec(name=name, command=command, stages=("before_tool", "approve_tool"), restart=many, **settings)


def do(what):
    return ToolCall(tool="bash", arguments={"do": what})


async def die(host):
    assert (await host.before_tool(do("die"))).trail[0].failure == "crashed"
    await host.before_tool(do("answer"))  # by the next life


async def leave_the_calls(host):
    with anyio.move_on_after(0.01):
        await host.before_tool(do("hang"))
    with anyio.move_on_after(0.01):
        await host.approve_tool(do("hang"))


async def be_late(host):
    outcome = await host.before_tool(ToolCall(tool="late", arguments={"do": "hang"}))
    assert outcome.trail[-1].failure == "timeout"


async def restart(host):
    host.restart("h")
    await host.before_tool(do("answer"))


async def come_and_go(host):
    await host.mount(lives("other"))
    await host.unmount("other")


async def run_a_shell(host):
    await host.mount(HookSpec(name="shell", run="cat >/dev/null; echo '{}'", stages=("before_tool",)))
    await host.before_tool(do("answer"))
    await host.unmount("shell")


async def have_a_session(host):
    async with host.session("s") as session, session.turn("hello"):
        await host.before_tool(do("answer"))


async def have_another_host(_):
    async with Host([lives("h")], timeouts=FAR) as host:
        await host.before_tool(do("answer"))


async def test_the_end_of_a_host_leaves_no_cycles_of_objects_behind():
    found = {}
    hooks = [lives("h", filter=Filter(tool="bash")), lives("late", filter=Filter(tool="late"), timeout=0.1)]
    async with Host(hooks, timeouts=FAR) as host:
        for end in (
            die,
            leave_the_calls,
            be_late,
            restart,
            come_and_go,
            run_a_shell,
            have_a_session,
            have_another_host,
        ):
            await end(host)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                await end(host)
                gc.collect()
                left = {type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("picohook")}
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            if left:
                found[end.__name__] = left
    assert found == {}


async def test_an_unfinished_line_is_freed_with_its_channel():
    def pipe():
        readable, writable = os.pipe()
        for fd in (readable, writable):
            os.set_blocking(fd, False)
        return readable, writable

    with without_a_collection():
        (ours, its_stdout), (its_stdin, stdin) = pipe(), pipe()
        channel = Channel(
            current_reactor(), ours, stdin, name="h", log=Log(), counters=HookCounters(),
            read=lambda *_: None, on_fault=lambda _: None,
        )  # fmt: skip
        os.write(its_stdout, b"x" * 50_000)
        with contextlib.suppress(HandshakeError):  # `pytest.raises` would keep it, and its frames
            await channel.hello(["tool"], current_reactor().now() + 0.05)
        peer, gone = weakref.ref(channel._peer), weakref.ref(channel)
        assert channel._peer._lines.pending == 50_000
        channel.close(HookCrashedError("it ended", hook="h"))
        channel.release()
        assert channel._peer._lines.pending == 0
        del channel
        await anyio.lowlevel.checkpoint()  # until here it may be the channel's own callback that runs this
        assert (gone(), peer()) == (None, None)
        for fd in (its_stdin, its_stdout):
            os.close(fd)


@pytest.mark.parametrize("leaves", ["in_the_middle_of_a_line", "while_it_is_answered"])
async def test_a_client_of_a_server_that_has_ended_is_freed_at_once(leaves):
    more = {"in_the_middle_of_a_line": b"x" * 50_000, "while_it_is_answered": b""}[leaves]
    asked = anyio.Event()

    class Slow(Host):
        async def reload(self):
            asked.set()
            await anyio.sleep_forever()

    with without_a_collection():
        near, far = socket.socketpair()
        client = Connection(
            DISPATCHER,
            lambda connection: ControlContext(Slow(), connection),
            two_descriptors(near),
            limits=ConnectionLimits(line=1 << 20),
            log=Log(),
            noun="it",
        )
        gone = weakref.ref(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.run)
            far.sendall(b'{"jsonrpc":"2.0","id":1,"method":"reload"}\n' + more)
            await asked.wait()
            far.close()
            del client
        await anyio.lowlevel.checkpoint()
        assert gone() is None
