"""What the host needs of an event loop, with real descriptors, on both."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import anyio
import anyio.lowlevel
import pytest
from scripted import SERVE, scripted

from picohook import Host, Timeouts, ToolCall
from picohook.transport.event_loop import current_reactor
from picohook.transport.reactor import Failure

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipes():
    made = []

    def make():
        pair = os.pipe()
        for fd in pair:
            os.set_blocking(fd, False)
        made.extend(pair)
        return pair

    def close(*fds):
        for fd in fds:
            made.remove(fd)
            os.close(fd)

    make.close = close
    yield make
    for fd in made:
        os.close(fd)


class Seen(list):
    def __init__(self):
        super().__init__()
        self._changed = anyio.Event()

    def callback(self, what, fd):
        return lambda: self.note((what, os.read(fd, 100)))

    def note(self, what):
        self.append(what)
        self._changed.set()
        self._changed = anyio.Event()

    async def count(self, number):
        with anyio.fail_after(30):
            while len(self) < number:
                await self._changed.wait()


async def test_a_callback_runs_whenever_there_is_something_to_read(pipes):
    reactor, seen = current_reactor(), Seen()
    readable, writable = pipes()
    reactor.on_readable(readable, seen.callback("a", readable))
    for number in range(1, 4):
        os.write(writable, b"%d" % number)
        await seen.count(number)
    assert seen == [("a", b"1"), ("a", b"2"), ("a", b"3")]
    reactor.release(readable)
    os.write(writable, b"4")
    await anyio.wait_all_tasks_blocked()
    assert len(seen) == 3


async def test_a_descriptor_that_is_released_in_the_moment_it_can_be_read_is_not_called_back(pipes):
    """Trio takes what can run in any order: so, many times."""
    reactor = current_reactor()
    for _ in range(30):
        seen = Seen()
        readable, writable = pipes()
        reactor.on_readable(readable, seen.callback("a", readable))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        os.write(writable, b"x")
        await anyio.lowlevel.checkpoint()
        taken = len(seen)
        reactor.release(readable)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert len(seen) == taken


async def test_a_reused_descriptor_number_is_another_descriptor(pipes):
    """Released, closed and opened again at once, many times: the callbacks of old ones are never called."""
    reactor, seen = current_reactor(), Seen()
    readable, writable = pipes()
    for number in range(30):
        first = readable
        reactor.on_readable(readable, seen.callback(number, readable))
        if number % 3 == 0:
            await anyio.lowlevel.checkpoint()
        if number % 3 == 1:
            await anyio.wait_all_tasks_blocked() if number < 5 else await anyio.lowlevel.checkpoint()
        os.write(writable, b"old")
        reactor.release(readable)
        pipes.close(readable, writable)
        readable, writable = pipes()
        assert readable == first
    reactor.on_readable(readable, seen.callback("last", readable))
    os.write(writable, b"new")
    await seen.count(1)
    await anyio.wait_all_tasks_blocked()
    assert seen == [("last", b"new")]
    reactor.release(readable)


async def test_a_callback_runs_when_there_is_room_while_there_is_more_to_write(pipes):
    reactor, seen = current_reactor(), Seen()
    readable, writable = pipes()
    while True:
        try:
            os.write(writable, b"x" * 65536)
        except BlockingIOError:
            break
    more = [True, True, False]

    def write():
        seen.note(len(more))
        return more.pop(0)

    reactor.on_writable(writable, write)
    await anyio.wait_all_tasks_blocked()
    assert seen == []
    os.read(readable, 65536)
    await seen.count(3)
    await anyio.wait_all_tasks_blocked()
    assert seen == [3, 2, 1]
    reactor.on_writable(writable, write)
    reactor.release(writable)
    await anyio.wait_all_tasks_blocked()
    assert seen == [3, 2, 1]


async def test_a_callback_may_release_its_own_descriptor(pipes):
    reactor, seen = current_reactor(), Seen()
    readable, writable = pipes()
    read = seen.callback("a", readable)

    def once():
        reactor.release(readable)
        read()

    reactor.on_readable(readable, once)
    os.write(writable, b"x")
    await seen.count(1)
    os.write(writable, b"y")
    await anyio.wait_all_tasks_blocked()
    assert seen == [("a", b"x")]


async def test_soon_runs_after_the_current_callback():
    order, done = [], anyio.Event()

    def later():
        order.append("later")
        done.set()

    current_reactor().soon(later)
    order.append("now")
    await done.wait()
    assert order == ["now", "later"]


async def test_a_waiter_gets_the_first_value_whenever_it_comes():
    reactor = current_reactor()
    before = reactor.waiter()
    before.settle(1)
    before.settle(2)
    assert await before.wait(reactor.now() + 60) == 1
    during = reactor.waiter()
    reactor.soon(lambda: during.settle(3))
    assert await during.wait(reactor.now() + 60) == 3
    during.settle(4)


async def test_a_waiter_ends_at_its_deadline_and_ignores_a_late_value():
    reactor = current_reactor()
    waiter = reactor.waiter()
    with pytest.raises(TimeoutError):
        await waiter.wait(reactor.now() + 0.01)
    waiter.settle(1)


async def test_a_promise_gives_its_value_to_the_task_that_awaits_it_whenever_it_comes():
    reactor, left = current_reactor(), []
    before, during = reactor.promise(left.append), reactor.promise(left.append)
    reactor.settle([(before, 1)])
    reactor.settle([(before, 2)])
    assert await before == 1
    reactor.soon(lambda: reactor.settle([(during, 2)]))
    assert await during == 2
    assert left == []


async def test_a_promise_raises_the_error_that_it_was_given():
    reactor = current_reactor()
    before, during = reactor.promise(print), reactor.promise(print)
    error = Failure(ValueError("no"))
    reactor.settle([(before, error)])
    with pytest.raises(ValueError, match="no"):
        await before
    reactor.soon(lambda: reactor.settle([(during, error)]))
    with pytest.raises(ValueError, match="no"):
        await during


async def test_a_promise_whose_task_was_cancelled_reports_it_once_and_ignores_a_late_value():
    reactor, left = current_reactor(), []
    promise = reactor.promise(left.append)

    async def wait():
        await promise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert left == []
        tasks.cancel_scope.cancel()
    assert left == [promise]
    reactor.settle([(promise, 1), (promise, Failure(ValueError("no")))])
    assert left == [promise]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})])
async def test_a_task_continues_in_the_callback_that_gives_it_its_value():
    reactor, order, done = current_reactor(), [], anyio.Event()
    promise = reactor.promise(print)

    def give():
        reactor.settle([(promise, "value")])
        order.append("callback")
        done.set()

    reactor.soon(give)
    order.append(await promise)
    await done.wait()
    assert order == ["value", "callback"]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})])
async def test_other_code_can_use_a_promise_as_a_future():
    reactor = current_reactor()
    promise, settled = reactor.promise(print), reactor.promise(print)
    reactor.settle([(settled, 1)])
    reactor.soon(lambda: reactor.settle([(promise, 2)]))
    assert await asyncio.gather(settled, promise, promise) == [1, 2, 2]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_an_error_that_is_never_awaited_is_not_reported():
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    reactor = current_reactor()
    reactor.settle([(reactor.promise(print), Failure(ValueError("no")))])
    gc.collect()
    assert complaints == []


async def test_an_alarm_rings_once_at_the_time_it_was_set_to_last():
    reactor = current_reactor()
    rang, done = [], anyio.Event()

    def ring():
        rang.append(reactor.now())
        done.set()

    alarm = reactor.alarm(ring)
    alarm.off()
    alarm.set(reactor.now() + 600)
    alarm.set(first := reactor.now() + 0.01)
    alarm.set(later := first + 0.02)
    await done.wait()
    assert rang[0] >= later
    done = anyio.Event()
    alarm.set(reactor.now() + 0.01)
    await done.wait()
    assert len(rang) == 2


async def test_an_alarm_that_is_off_does_not_ring():
    reactor = current_reactor()
    rang, done = [], anyio.Event()
    alarm, other = reactor.alarm(lambda: rang.append(1)), reactor.alarm(done.set)
    alarm.set(reactor.now() + 0.01)
    alarm.off()
    other.set(reactor.now() + 0.02)
    await done.wait()
    assert rang == []


async def test_a_cancelled_waiter_ignores_a_late_value():
    reactor = current_reactor()
    waiter = reactor.waiter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter.wait, reactor.now() + 60)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        waiter.settle(1)
    waiter.settle(2)


async def test_C5_a_wall_clock_that_jumps_moves_no_deadline(board, monkeypatch):
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=Timeouts(interceptor=60)) as host:
        line = await board.line("h")
        for jump in (1e9, -1e9):
            outcomes = []

            async def ask(outcomes=outcomes):
                arguments = {"do": [["tell", "asked"], ["wait"]], "nonce": 1}
                outcomes.append(await host.before_tool(ToolCall(tool="x", arguments=arguments)))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await line.said()
                real = time.time
                with monkeypatch.context() as patch:
                    patch.setattr(time, "time", lambda real=real, jump=jump: real() + jump)
                    await anyio.wait_all_tasks_blocked()
                    line.go_on()
                    while not outcomes:
                        await anyio.lowlevel.checkpoint()
            assert outcomes[0].payload.arguments == {"echo": 1}


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_times_below_a_millisecond_are_measured_on_uvloop_too():
    async with Host([scripted("h", ["hello"], SERVE)], timeouts=Timeouts(interceptor=60)) as host:
        trails = [(await host.before_tool(ToolCall(tool="bash"))).trail for _ in range(30)]
    assert any(0.01 < entry.duration * 1000 % 1 < 0.99 for (entry,) in trails)
