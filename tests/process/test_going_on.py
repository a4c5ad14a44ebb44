"""On asyncio a task goes on inside the callback that read its answer: what it does there is nobody else's trouble."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading

import pytest

from picohook import HookSpec, HookTimeoutError, Host, Timeouts, ToolCall
from picohook.stages import STAGES
from picohook.transport.reactor import current_reactor

PAIRS = """
import json, sys
waiting = []
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "hook.hello":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"ok": True}}), flush=True)
    elif request.get("id") and not request["params"]["arguments"].get("mute"):
        waiting.append(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "continue"}}))
        if len(waiting) == 2:
            print("\\n".join(waiting), flush=True)
            waiting = []
"""
"""Answers two requests at a time, in one write."""


@pytest.mark.parametrize("arguments", [{}, {"mute": True}], ids=["answered", "timed out"])
@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_a_task_that_ends_the_event_loop_leaves_no_other_call_waiting(ending, arguments):
    spec = HookSpec(name="h", command=(sys.executable, "-c", PAIRS), stages=("before_tool",), grace=0.1)
    call = ToolCall(tool="x", arguments=arguments)
    loop = asyncio.new_event_loop()
    host = Host([spec], timeouts=Timeouts(interceptor=0.2 if arguments else 60, chain=60))
    runs, is_over = asyncio.Event(), asyncio.Event()

    async def run():
        async with host:
            runs.set()
            await is_over.wait()

    running = loop.create_task(run())
    loop.run_until_complete(runs.wait())

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
    is_over.set()
    loop.run_until_complete(running)
    loop.close()


def test_a_loop_whose_clock_was_replaced_keeps_one_clock():
    loop = asyncio.new_event_loop()
    loop.time = lambda: 5.0

    async def now():
        return current_reactor().now()

    try:
        assert loop.run_until_complete(now()) == 5.0
    finally:
        loop.close()


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
