"""On asyncio a task goes on inside the callback that read its answer: what it does there is nobody else's trouble."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import sys
import threading

import anyio
import pytest
from scripted import scripted

from picohook import HookSpec, HookTimeoutError, Host, Timeouts, ToolCall
from picohook.log import Log
from picohook.stages import STAGES
from picohook.transport.channel import Channel, Counters
from picohook.transport.reactor import current_reactor

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
    assert error == ("no answer within 0.2 s" if arguments else None)
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
def test_what_ends_the_event_loop_while_an_answer_is_read_leaves_no_call_waiting(ending):
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
    errors = [loop.run_until_complete(task).trail[0].error for task in tasks]
    assert errors == [None, "its answer was not read to its end"]
    end()


class Interrupting:
    """A log that is interrupted when it is told of a sloppy answer."""

    def __init__(self, ending):
        self._ending = ending

    def bind(self, **_):
        return self

    def warning(self, event, **_):
        if "sloppy" in event:
            raise self._ending

    debug = info = error = warning


def test_a_host_that_is_asked_from_another_event_loop_says_so_and_goes_on_with_nothing_there():
    async def serve(asked, ended):
        spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
        async with Host([spec]) as host:
            asked.set_result(host)
            await asyncio.get_running_loop().run_in_executor(None, ended.wait)

    async def ask(host):
        outcome = await host.before_tool(ToolCall(tool="bash"))
        return outcome.trail[0].error, threading.current_thread()

    host, ended = concurrent.futures.Future(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve(host, ended)))
    thread.start()
    try:
        error, went_on_in = asyncio.run(ask(host.result()))
    finally:
        ended.set()
        thread.join()
    assert error == "it runs in another event loop: ask it there"
    assert went_on_in is threading.current_thread()


@pytest.mark.anyio
async def test_a_question_whose_time_is_over_is_not_put_to_the_hook():
    spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
    async with Host([spec]) as host:
        supervised = host._crew.mounted["h"].hook._supervisor
        now = current_reactor().now()
        with pytest.raises(HookTimeoutError, match="before it was asked"):
            await supervised.channel.call(STAGES["before_tool"], b"{}", now, now, now)
        assert supervised.counters.calls == 0


@pytest.mark.anyio
@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="no pipe here keeps what was written apart")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})])
async def test_what_two_ask_next_who_were_answered_together_is_written_together():
    (stdout, its_stdout), (its_stdin, stdin) = os.pipe2(os.O_NONBLOCK), os.pipe2(os.O_NONBLOCK | os.O_DIRECT)
    reactor, stage = current_reactor(), STAGES["before_tool"]
    channel = Channel(
        reactor,
        stdout,
        stdin,
        name="h",
        log=Log(),
        counters=Counters(),
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
async def test_a_hello_that_is_not_answered_is_no_call_that_timed_out():
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
    assert 0 < float(error.removeprefix("no answer within ").removesuffix(" s")) <= 0.5
