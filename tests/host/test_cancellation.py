"""C1, S9: cancelled at any moment, nothing is left behind: no process, no task, nobody who waits, no descriptor."""

from __future__ import annotations

import asyncio
import functools

import anyio
import anyio.lowlevel
import pytest
from loops import both
from scripted import HANG, HELLO, SERVE, children, held, scripted, settled

from picohook import FunctionHook, HookCrashedError, Host, Timeouts, ToolCall
from picohook.process import restart
from picohook.transport.concurrency import ConcurrencyLimit
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=3600, approval=3600, hello=3600, chain=3600, observer=3600)
"""None passes while a test runs: on trio, an alarm that rings is one task less."""
BOTH = ("before_tool", "approve_tool")
TURNS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 25, 50, 100, 200, 400]
"""Turns of the event loop after which a cancellation comes: each of the first, and some on the way through a start."""


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


async def cancel_after(turns, function, *arguments):
    """Run it, and cancel it after so many turns of the event loop, if it lasts so long."""
    async with anyio.create_task_group() as tasks:

        async def run():
            await function(*arguments)
            tasks.cancel_scope.cancel()

        tasks.start_soon(run)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


def assert_nobody_waits(host: Host):
    for mounted in host._mounted.by_name.values():
        supervised = mounted.hook
        assert not supervised._waiting
        if supervised.channel is not None:
            assert supervised.channel._peer.in_flight() == 0
            assert not supervised.channel._flush_waiters


@pytest.mark.parametrize("turns", TURNS)
async def test_S9_a_host_cancelled_while_it_starts_leaves_nothing(turns):
    before = held()

    async def serve():
        async with Host([scripted("a"), scripted("b"), FunctionHook("f", on_event=print)], timeouts=FAR):
            await anyio.sleep_forever()

    await cancel_after(turns, serve)
    assert not children()
    await settled(before)


@pytest.mark.parametrize("moment", ["started", "in_hello", "serving", "crashed"])
async def test_S9_a_host_cancelled_at_a_point_of_a_hooks_life_leaves_nothing(moment, board, journal):
    at = {"started": 0, "in_hello": 1, "serving": 2, "crashed": 2}[moment]
    steps = [["read"], ["reply", {}]]
    steps.insert(at, board.call("here"))
    steps.insert(at + 1, ["exit", 1] if moment == "crashed" else HANG)
    before = held()
    async with anyio.create_task_group() as tasks:

        async def serve():
            async with Host([scripted("h", *steps, grace=0.1)], timeouts=FAR, logger=journal):
                await anyio.sleep_forever()

        tasks.start_soon(serve)
        line = await board.line("here")
        if moment == "crashed":
            await line.dead()
        tasks.cancel_scope.cancel()
    assert not line.alive
    assert not children()
    line.close()
    await settled(before)


@pytest.mark.parametrize("turns", TURNS)
async def test_a_mount_that_is_cancelled_leaves_nothing(turns):
    async with Host([scripted("good")], timeouts=FAR) as host:
        before, alive = held(), children().keys()
        await cancel_after(turns, host.mount, scripted("new"))
        if len(host.hooks) == 2:  # it was done before
            await host.unmount("new")
        assert children().keys() == alive
        await settled(before)
        assert (await host.before_tool(asking())).trail[0].error is None


async def test_a_mount_that_is_cancelled_while_another_task_unmounts_it_is_a_cancellation(board):
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", board.call("h"), ["ignore", "SIGTERM"], HANG, grace=0.05))
        line = await board.line("h")
        tasks.start_soon(host.unmount, "h")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught or not line.alive


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_a_mount_that_is_cancelled_takes_no_other_hook_of_the_same_name_down(board):
    """In one turn of the event loop, in this order: it is unmounted, another is mounted in its place, it is cancelled."""
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        mounting = anyio.CancelScope()

        async def mount():
            with mounting:
                await host.mount(scripted("h", board.call("old"), ["wait"], SERVE, grace=0.1))

        tasks.start_soon(mount)
        old = await board.line("old")
        tasks.start_soon(host.unmount, "h")
        tasks.start_soon(host.mount, scripted("h", board.call("new"), SERVE))
        mounting.cancel()
        await old.dead()
        assert (await host.before_tool(asking())).trail[0].error is None
        assert (await board.line("new")).alive


async def cancel_when_blocked(function, *arguments, before=None):
    """Cancel callers that wait, when all that can happen has happened."""
    async with anyio.create_task_group() as callers:
        for one in arguments:
            callers.start_soon(function, one)
        if before is not None:
            await before()
        await anyio.wait_all_tasks_blocked()
        callers.cancel_scope.cancel()


async def assert_still_good(host):
    assert (await host.before_tool(asking(nonce="next"))).payload.arguments == {"echo": "next"}
    assert (await host.approve_tool(asking())).approved
    assert_nobody_waits(host)


async def test_C1_callers_cancelled_while_they_wait_for_a_start_leave_no_other_waiting(board):
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", board.call("h"), ["wait"], SERVE, stages=BOTH))
        line = await board.line("h")
        await cancel_when_blocked(host.before_tool, *[asking()] * 5)
        assert_nobody_waits(host)
        line.go_on()
        await assert_still_good(host)


async def test_C1_callers_cancelled_during_a_back_off_leave_no_other_waiting(monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 60)
    monkeypatch.setattr(restart, "BACKOFF_MOST", 60)
    async with Host([scripted("h", stages=BOTH)], timeouts=FAR) as host:
        await host.before_tool(asking(["exit", 1]))
        await cancel_when_blocked(host.before_tool, *[asking()] * 5)
        assert_nobody_waits(host)
        host.reset("h")
        await assert_still_good(host)


@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
async def test_C1_a_caller_cancelled_while_it_waits_for_an_answer_leaves_no_other_waiting(stage, board):
    hooks = [scripted("g", stages=BOTH), scripted("h", board.call("h"), SERVE, stages=BOTH)]
    async with Host(hooks, timeouts=FAR) as host:
        line = await board.line("h")
        before = held()
        call = asking(["tell", "asked"], ["wait"], who="h")
        await cancel_when_blocked(getattr(host, stage), call, before=line.said)
        assert_nobody_waits(host)
        await settled(before)
        line.go_on()
        await assert_still_good(host)


async def test_C1_callers_cancelled_in_mid_write_and_behind_it_leave_no_other_waiting(board):
    async with Host([scripted("h", board.call("h"), SERVE, stages=BOTH)], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, asking(["tell", "busy"], ["wait"]))
            assert await line.said() == "busy"
            big = asking(pad="x" * 500_000)
            await cancel_when_blocked(host.before_tool, big, *[asking(nonce=nonce) for nonce in range(20)])
            line.go_on()
        await assert_still_good(host)
        assert host.status().hooks[0].starts == 1


@pytest.mark.parametrize("turns", range(12))
async def test_C1_a_round_trip_cancelled_at_any_turn_loses_nothing(turns):
    async with Host([scripted("h", stages=BOTH), scripted("g", stages=BOTH)], timeouts=FAR) as host:
        await cancel_after(turns, host.before_tool, asking(nonce="lost"))
        await cancel_after(turns, host.approve_tool, asking())
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
        assert (await host.approve_tool(asking())).approved
        assert_nobody_waits(host)
        assert {status.starts for status in host.status().hooks} == {1}


async def test_C1_a_cancelled_tool_is_cancelled_and_the_host_continues(board):
    async with Host([scripted("h", stages=(*BOTH, "after_tool"))], timeouts=FAR) as host:

        async def execute(call):
            running.set()
            await anyio.sleep_forever()

        running = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run_tool, asking(), execute)
            await running.wait()
            tasks.cancel_scope.cancel()
        assert (await host.run_tool(asking(), lambda call: "done")).for_llm == "done"
        assert_nobody_waits(host)


async def test_C1_a_caller_that_waits_for_an_event_to_be_written_can_be_cancelled(board):
    spec = scripted("h", HELLO, board.call("h"), ["wait"], SERVE, observe=("*",), grace=0.1)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.emit_and_wait, "turn_start", {"UserMessage": "x" * 500_000})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert_nobody_waits(host)
        line.go_on()


async def test_C3_a_close_is_not_cut_short_by_a_cancellation(board, journal):
    spec = scripted("h", ["ignore", "SIGTERM"], board.call("h"), HELLO, HANG, grace=0.1)
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        line = await board.line("h")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await host.aclose()
        await line.dead()
        assert host.status().hooks[0].state == "stopped"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_C3_leaving_the_block_is_not_cut_short_by_a_cancellation_of_asyncios_own(board):
    """No shield of anyio keeps out `Task.cancel`."""

    async def serve():
        steps = ["ignore", "SIGTERM"], board.call("h"), HELLO, ["end_of_stdin"], ["tell", "end"], HANG
        async with Host([scripted("h", *steps, grace=0.2)], timeouts=FAR):
            pass

    task = asyncio.create_task(serve())
    line = await board.line("h")
    assert await line.said() == "end"  # it is on its way down now
    assert line.alive
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not line.alive
    assert not children()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_asyncios_own_timeout_around_a_call_leaves_no_caller_waiting(board):
    async with Host([scripted("h", HELLO, ["read"], SERVE)], timeouts=FAR) as host:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.before_tool(asking()), 0.05)
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
        assert_nobody_waits(host)


async def test_S12_a_host_that_fails_to_start_for_a_required_hook_leaves_nothing(board):
    before = held()
    hooks = [scripted("good", board.call("good"), SERVE), scripted("bad", ["exit", 3], required=True)]
    host = Host(hooks, timeouts=FAR)
    with pytest.raises(HookCrashedError, match="hook bad is required, and did not start: it exited with code 3"):
        await host.__aenter__()
    line = await board.line("good")
    assert not line.alive
    assert not children()
    line.close()
    await settled(before)


async def test_C1_callers_cancelled_while_they_wait_for_a_slot_leave_it_to_the_others(board):
    async with Host([scripted("h", board.call("h"), SERVE, max_in_flight=1)], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, asking(["tell", "busy"], ["wait"]))
            assert await line.said() == "busy"
            await cancel_when_blocked(host.before_tool, *[asking(nonce=nonce) for nonce in range(5)])
            line.go_on()
        for nonce in range(3):
            assert (await host.before_tool(asking(nonce=nonce))).payload.arguments == {"echo": nonce}
        assert_nobody_waits(host)
        assert host.status().hooks[0].calls == 4  # the cancelled ones were never sent


async def test_C1_a_caller_cancelled_in_its_slot_passes_it_on(board):
    async with Host([scripted("h", board.call("h"), SERVE, max_in_flight=1)], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask(nonce):
            outcomes.append(await host.before_tool(asking(nonce=nonce)))

        async with anyio.create_task_group() as others, anyio.create_task_group() as first:
            first.start_soon(host.before_tool, asking(["tell", "busy"], ["wait"]))
            assert await line.said() == "busy"
            for nonce in range(5):
                others.start_soon(ask, nonce)
            await anyio.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
            line.go_on()
        assert sorted(outcome.payload.arguments["echo"] for outcome in outcomes) == list(range(5))


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_C1_a_slot_that_is_free_in_the_moment_of_a_cancellation_is_not_lost():
    slots = ConcurrencyLimit(current_reactor(), 1)
    await slots.acquire(current_reactor().now() + 60, "h")
    task = asyncio.create_task(slots.acquire(current_reactor().now() + 60, "h"))
    await anyio.wait_all_tasks_blocked()
    slots.release()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slots.free == 1


async def test_C4_calls_that_wait_for_a_slot_fail_at_a_crash_or_go_to_the_next_process(board):
    """Nobody of them is forgotten."""
    async with Host([scripted("h", board.call("h"), SERVE, max_in_flight=1)], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask(*steps, **more):
            outcomes.append(await host.before_tool(asking(*steps, **more)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, ["tell", "busy"], ["wait"], ["exit", 1])
            assert await line.said() == "busy"
            for nonce in range(5):
                tasks.start_soon(functools.partial(ask, nonce=nonce))
            await anyio.wait_all_tasks_blocked()
            line.go_on()
        assert len(outcomes) == 6
        for outcome in outcomes:
            error = outcome.trail[0].error
            assert error == "it exited with code 1" if error else outcome.payload.arguments
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}


class Recorded:
    """Waits for ever, and notes with what it was thrown out of that."""

    def __init__(self):
        self.thrown = []

    def __await__(self):
        self.inner = anyio.sleep_forever().__await__()
        return self

    def __next__(self):
        return self.inner.send(None)

    def send(self, value):
        return self.inner.send(value)

    def throw(self, *given):
        self.thrown.append(given)
        return self.inner.throw(*given)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])  # trio sends it, and throws nothing
async def test_what_a_function_awaits_is_thrown_the_cancellation_alone():
    """With a type and a traceback beside it, Python 3.12 and newer warn; and the call goes on where a warning is an error."""
    recorded, scope = Recorded(), anyio.CancelScope()

    async def check(call):
        scope.cancel()
        await recorded

    async with Host([FunctionHook("f", {"before_tool": check})], timeouts=FAR) as host:
        with scope:
            await host.before_tool(asking())
            raise AssertionError("it was not cancelled")
    ((cancellation,),) = recorded.thrown
    assert isinstance(cancellation, anyio.get_cancelled_exc_class())
