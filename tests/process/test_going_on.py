"""On asyncio a task goes on inside the callback that read its answer: what it does there is nobody else's trouble."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import sys
import threading

import anyio
import needs
import preloaded
import pytest
from scripted import PATIENCE, SERVE, command, scripted

from picohook import FunctionHook, HookSpec, HookTimeoutError, Host, PicohookError, Timeouts, ToolCall
from picohook.model.stages import STAGES
from picohook.observe.log import Log
from picohook.transport.channel import Channel, HookCounters
from picohook.transport.event_loop import current_reactor

PAIRS = """
import json, sys
waiting = []
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "hook.hello":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"ok": True}}), flush=True)
    elif request.get("id") and not request["params"]["arguments"].get("mute"):
        version = {} if request["params"]["arguments"].get("sloppy") else {"jsonrpc": "2.0"}
        waiting.append(json.dumps({**version, "id": request["id"], "result": {"action": "continue"}}))
        if len(waiting) == 2:
            print("\\n".join(waiting), flush=True)
            waiting = []
"""
"""Answers two requests at a time, in one write."""


def begun(host, loop):
    """Enter a host in a task on this loop, and run it until the host serves; what comes back ends both."""
    runs, is_over = asyncio.Event(), asyncio.Event()

    async def run():
        async with host:
            runs.set()
            await is_over.wait()

    running = loop.create_task(run())
    loop.run_until_complete(runs.wait())

    def end():
        is_over.set()
        loop.run_until_complete(running)
        loop.close()

    return end


@pytest.mark.parametrize("arguments", [{}, {"mute": True}], ids=["answered", "timed out"])
@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_a_task_that_ends_the_event_loop_leaves_no_other_call_waiting(ending, arguments):
    spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
    call = ToolCall(tool="x", arguments=arguments)
    loop = asyncio.new_event_loop()
    host = Host([spec], timeouts=Timeouts(interceptor=0.2 if arguments else 60, chain=60))
    end = begun(host, loop)

    async def ends():
        await host.before_tool(call)
        raise ending

    async def goes_on():
        return await host.before_tool(call)

    first, other = loop.create_task(ends()), loop.create_task(goes_on())
    with pytest.raises(ending):
        loop.run_until_complete(other)
    error = loop.run_until_complete(other).trail[0].error
    assert error == ("no answer within 0.2 s (timeout)" if arguments else None)
    assert first.done()
    assert isinstance(first.exception(), ending)
    end()


def test_a_loop_whose_clock_was_replaced_keeps_one_clock():
    loop = asyncio.new_event_loop()
    loop.time = lambda: 5.0

    async def now():
        return current_reactor().now()

    try:
        assert loop.run_until_complete(now()) == 5.0
    finally:
        loop.close()


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_an_end_of_the_event_loop_while_an_answer_is_read_leaves_no_call_waiting(ending):
    """The second answer of two in one write is sloppy, and saying so in the log is interrupted."""
    spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
    loop = asyncio.new_event_loop()
    log = Interrupting(ending)
    host = Host([spec], timeouts=Timeouts(interceptor=60, chain=60), logger=log)
    end = begun(host, loop)
    tools = [ToolCall(tool="x"), ToolCall(tool="x", arguments={"sloppy": True})]
    tasks = [loop.create_task(host.before_tool(call)) for call in tools]
    with pytest.raises(ending):
        loop.run_until_complete(asyncio.wait(tasks))
    assert loop.run_until_complete(tasks[0]).trail[0].error is None
    assert isinstance(tasks[1].exception(), ending)
    end()


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_an_end_of_the_event_loop_while_a_line_is_dropped_leaves_no_call_waiting(ending):
    """Two answers and a line that is none are read at once."""
    junk = PAIRS.replace('"\\n".join(waiting)', '"\\n".join([*waiting, "junk"])')
    spec = HookSpec(name="h", command=(sys.executable, "-c", junk), stages=("before_tool",), grace=0.1)
    loop = asyncio.new_event_loop()
    end = begun(host := Host([spec], timeouts=Timeouts(interceptor=60, chain=60), logger=Interrupting(ending)), loop)
    tasks = [loop.create_task(host.before_tool(ToolCall(tool="x"))) for _ in range(2)]
    with pytest.raises(ending):
        loop.run_until_complete(asyncio.wait(tasks))
    assert [loop.run_until_complete(asyncio.wait_for(task, PATIENCE)).trail[0].error for task in tasks] == [None] * 2
    end()


class Interrupting:
    """A log that is interrupted when it is told of a sloppy answer or a dropped line."""

    def __init__(self, ending):
        self._ending = ending

    def bind(self, **_):
        return self

    def warning(self, event, **_):
        if "sloppy" in event or "dropped" in event:
            raise self._ending

    debug = info = error = warning


@pytest.mark.parametrize("theirs", ["asyncio", "trio"])
@pytest.mark.parametrize("ours", ["asyncio", "trio"])
@needs.other_rooms
def test_a_host_that_is_used_in_another_event_loop_raises_and_works_on_in_its_own(ours, theirs):
    async def serve(asked, ended):
        async with Host([scripted("h", grace=0.1)]) as host:
            asked.set_result(host)
            await anyio.to_thread.run_sync(ended.wait)
            return (await host.before_tool(ToolCall(tool="bash"))).trail[0].error

    async def use(host):
        async def have_a_session():
            async with host.session("s"):
                pass

        uses = [
            lambda: host.before_tool(ToolCall(tool="bash")),
            lambda: host.run_tool(ToolCall(tool="bash"), lambda _: "ran"),
            lambda: host.emit_and_wait("turn_start"),
            lambda: anyio.to_thread.run_sync(host.emit, "turn_start"),
            lambda: host.mount(HookSpec(name="other", command=("true",), stages=("before_tool",))),
            lambda: host.unmount("h"),
            host.reload,
            host.aclose,
            lambda: anyio.to_thread.run_sync(host.restart, "h"),
            have_a_session,
        ]
        for one in uses:
            with pytest.raises(PicohookError, match="the host runs in another event loop: use it there"):
                await one()
        return threading.current_thread()

    host, ended, served = concurrent.futures.Future(), threading.Event(), concurrent.futures.Future()
    thread = threading.Thread(target=lambda: served.set_result(anyio.run(serve, host, ended, backend=ours)))
    thread.start()
    try:
        went_on_in = anyio.run(use, host.result(), backend=theirs)
    finally:
        ended.set()
        thread.join()
    assert went_on_in is threading.current_thread()
    assert served.result() is None


@pytest.mark.anyio
async def test_a_question_whose_time_is_over_is_not_put_to_the_hook():
    spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
    async with Host([spec]) as host:
        supervised = host._mounted.by_name["h"].hook
        now = current_reactor().now()
        with pytest.raises(HookTimeoutError, match="before it was asked"):
            await supervised.channel.call(STAGES["before_tool"], b"{}", now, now, now)
        assert supervised.counters.calls == 0


@pytest.mark.anyio
@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="no pipe here keeps what was written apart")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})])
async def test_callers_answered_together_share_the_next_write():
    (stdout, its_stdout), (its_stdin, stdin) = os.pipe2(os.O_NONBLOCK), os.pipe2(os.O_NONBLOCK | os.O_DIRECT)
    reactor, stage = current_reactor(), STAGES["before_tool"]
    channel = Channel(
        reactor,
        stdout,
        stdin,
        name="h",
        log=Log(),
        counters=HookCounters(),
        read=lambda _, answer: answer.result,
        on_fault=print,
    )

    async def written():
        with anyio.fail_after(30):
            await anyio.wait_readable(its_stdin)
        return [json.loads(line)["id"] for line in os.read(its_stdin, 100_000).splitlines()]  # of one write

    def answers(*requests):
        os.write(its_stdout, b"".join(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % request for request in requests))

    async def ask_twice():
        for _ in range(2):
            now = reactor.now()
            await channel.call(stage, b"{}", now + 60, now + 60, now)

    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as greeting:
            greeting.start_soon(channel.hello, [], reactor.now() + 60)
            answers(*await written())
        tasks.start_soon(ask_twice)
        tasks.start_soon(ask_twice)
        assert [await written(), await written()] == [[2], [3]]
        answers(2, 3)
        assert await written() == [4, 5]
        answers(4, 5)
    channel.release()
    os.close(its_stdin)
    os.close(its_stdout)


@pytest.mark.anyio
async def test_an_unanswered_hello_does_not_count_as_a_timed_out_call():
    spec = HookSpec(name="h", command=("sleep", "60"), stages=("before_tool",), hello_timeout=0.05, grace=0.1)
    async with Host([spec]) as host:
        (status,) = host.status().hooks
        assert "hook.hello was not answered in time" in status.last_error
        assert (status.calls, status.timeouts) == (0, 0)


@pytest.mark.anyio
async def test_a_call_that_waited_for_its_hook_to_start_says_how_long_it_was_left_to_answer(board):
    spec = scripted("h", board.call("h"), ["wait"], ["hello"], ["hang"], timeout=0.5)
    outcomes = []

    async def let_it_start():
        (await board.line("h")).go_on()

    async def ask(host):
        outcomes.append(await host.before_tool(ToolCall(tool="bash")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_it_start)
        async with Host([spec], timeouts=Timeouts(hello=60, chain=60)) as host:
            host.restart("h")
            line = await board.line("h")
            async with anyio.create_task_group() as asking:
                asking.start_soon(ask, host)
                await anyio.wait_all_tasks_blocked()
                line.go_on()
    error = outcomes[0].trail[0].error
    assert 0 < float(error.removeprefix("no answer within ").removesuffix(" s (timeout)")) <= 0.5


FORKS = """
import asyncio, os, sys, threading, warnings
import anyio, trio
from picohook import Host, HookSpec, PicohookError, ToolCall
warnings.filterwarnings("ignore", ".*use of fork")  # beside threads, of which Python 3.12 and newer warn
CALL = ToolCall(tool="bash")
HOOK = HookSpec(name="h", command={command!r}, stages=("before_tool",), contain={contain!r})

def refused(use):
    try:
        use()
    except PicohookError as error:
        assert str(error) == "the host runs in the process that forked this one: make a new host after the fork", error
    else:
        raise AssertionError("it was not refused")

def child(uses, in_the_end):
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    else:
        for use in uses:
            refused(use)
        in_the_end()

def end_of_child():
    "As a worker ends: with what there is to finalize."
    sys.exit(7)

def ask(host):
    return [entry.error for entry in host.before_tool(CALL).trail]

def blocking():
    with Host.blocking([HOOK], control={socket!r}) as host:
        pid = host.status().hooks[0].pid
        uses = [lambda: host.before_tool(CALL), lambda: host.emit("turn_start"), host.status, lambda: host.restart("h")]
        uses += [lambda: host.unmount("h"), host.reload]
        child(uses, end_of_child)
        assert os.path.exists({socket!r})
        assert (ask(host), host.status().hooks[0].pid, host.status().hooks[0].starts) == ([None], pid, 1)

def plain(backend):
    "As a server that is loaded, and enters a host in a thread, before it forks its workers."
    entered, ended, came = threading.Event(), threading.Event(), []

    async def serve():
        async with Host([HOOK], control={socket!r}) as host:
            came.append(host)
            entered.set()
            await anyio.to_thread.run_sync(ended.wait)
            outcome = await host.before_tool(CALL)
            status, = host.status().hooks
            came.append(([entry.error for entry in outcome.trail], status.starts))

    thread = threading.Thread(target=anyio.run, args=(serve,), kwargs=dict(backend=backend))
    thread.start()
    entered.wait()
    host, = came

    async def session():
        async with host.session("s"):
            pass

    def using(use):
        return lambda: anyio.run(use, backend=backend)

    async def emit():
        host.emit("turn_start")

    uses = [using(lambda: host.before_tool(CALL)), using(emit), using(session), using(lambda: host.unmount("h"))]
    uses += [lambda: host.restart("h")]

    def close_and_end():
        anyio.run(host.aclose, backend=backend)  # does nothing

        async def own():
            async with Host([HOOK]) as another:
                assert [entry.error for entry in (await another.before_tool(CALL)).trail] == [None]

        anyio.run(own, backend=backend)
        del host.__dict__, came[:]
        end_of_child()

    child(uses, close_and_end)
    assert os.path.exists({socket!r})
    ended.set()
    thread.join()
    assert came[1] == ([None], 1), came

def in_its_block(backend):
    async def main():
        async with Host([HOOK]) as host, host.session("s", hooks=[HOOK]) as session:
            pid = os.fork()
            if not pid:
                await session.__aexit__(None, None, None)
                await host.aclose()
                await host.__aexit__(None, None, None)
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            assert [entry.error for entry in (await session.host.before_tool(CALL)).trail] == [None, None]
            assert [status.starts for status in session.host.status().hooks] == [1, 1]

    anyio.run(main, backend=backend)

blocking()
plain({backend!r})
in_its_block({backend!r})
print("all is well")
"""


@pytest.mark.anyio
@needs.other_rooms
async def test_C2_a_forked_child_gets_a_clear_error_and_leaves_the_parents_hooks_alone(
    contain, anyio_backend_name, tmp_path
):
    program = FORKS.format(
        command=command(SERVE), contain=contain, backend=anyio_backend_name, socket=str(tmp_path / "control")
    )
    with anyio.fail_after(PATIENCE):
        done = await anyio.run_process([preloaded.program("python"), "-c", program], check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"all is well\n", b"", 0)


@pytest.mark.parametrize("theirs", ["asyncio", "trio"])
@pytest.mark.parametrize("ours", ["asyncio", "trio"])
@needs.other_rooms
def test_a_sessions_hooks_are_mounted_and_unmounted_in_the_hosts_event_loop_only(ours, theirs):
    async def serve(asked, ended):
        async with (
            Host() as host,
            host.session("s", hooks=[FunctionHook("own", {"before_tool": lambda _: None})]) as session,
        ):
            asked.set_result(session)
            await anyio.to_thread.run_sync(ended.wait)
            return [hook.name for hook in session.hooks]

    async def use(session):
        for one in (lambda: session.mount(FunctionHook("other", {})), lambda: session.unmount("own")):
            with pytest.raises(PicohookError, match="the host runs in another event loop: use it there"):
                await one()

    session, ended, served = concurrent.futures.Future(), threading.Event(), concurrent.futures.Future()
    thread = threading.Thread(target=lambda: served.set_result(anyio.run(serve, session, ended, backend=ours)))
    thread.start()
    try:
        anyio.run(use, session.result(), backend=theirs)
    finally:
        ended.set()
        thread.join()
    assert served.result() == ["own@session"]
