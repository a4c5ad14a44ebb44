"""The slots of a hook: who gets them, in which order, and how much work it is when many wait."""

from __future__ import annotations

import anyio
import pytest
from rows import each

from picohook.errors import HookTimeoutError
from picohook.transport.concurrency import ConcurrencyLimit
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio


class Queue:
    """Calls that wait for the slots of a hook, one after another."""

    def __init__(self, tasks, reactor=None, count=1):
        self.reactor = current_reactor()
        self.far = self.reactor.now() + 600
        self.slots = ConcurrencyLimit(reactor or self.reactor, count)
        self.tasks = tasks
        self.got = []
        self.why = {}
        self.scopes = {}

    async def put(self, name, deadline=None):
        """Let a call wait, by its name."""

        async def wait():
            with self.scopes[name]:
                try:
                    await self.slots.acquire(self.far if deadline is None else deadline, "h")
                    self.got.append(name)
                except HookTimeoutError as error:
                    self.why[name] = str(error)

        self.scopes[name] = anyio.CancelScope()
        self.tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()

    async def leave(self, *names):
        for name in names:
            self.scopes[name].cancel()
        await anyio.wait_all_tasks_blocked()

    async def release(self, times):
        for _ in range(times):
            self.slots.release()
            await anyio.wait_all_tasks_blocked()


async def test_slots_go_to_those_that_still_wait_in_their_order():
    async with anyio.create_task_group() as tasks:
        queue = Queue(tasks)
        for name in "abcdefgh":
            await queue.put(name)
        assert queue.got == ["a"]
        await queue.leave("d", "b", "h")
        await queue.release(2)
        assert queue.got == ["a", "c", "e"]
        await queue.leave("f")
        await queue.put("i")
        await queue.release(4)
        assert queue.got == ["a", "c", "e", "g", "i"]
        assert queue.slots.free == 2


@each(
    ("leave", "release", "ahead"),
    [("", 0, "6 calls were"), ("b", 0, "5 calls were"), ("dc", 0, "4 calls were"), ("f", 2, "3 calls were"),
     ("d", 2, "3 calls were"), ("", 4, "2 calls were"), ("bcdef", 0, "1 call was"), ("", 5, "1 call was")],
)  # fmt: skip
async def test_a_call_that_gets_no_slot_in_time_says_how_many_were_ahead_of_it(leave, release, ahead):
    async with anyio.create_task_group() as tasks:
        queue = Queue(tasks)
        for name in "abcdef":
            await queue.put(name)
        await queue.release(release)
        await queue.leave(*leave)
        await queue.put("late", queue.reactor.now())
        with anyio.fail_after(60):
            while "late" not in queue.why:
                await anyio.lowlevel.checkpoint()
        assert queue.why["late"] == f"timed out waiting for a free slot: {ahead} ahead of it"
        tasks.cancel_scope.cancel()


class Compared:
    """A waiter of the event loop that counts how often it is compared with another."""

    times = 0

    def __init__(self, waiter):
        self.settle, self.wait = waiter.settle, waiter.wait

    def __eq__(self, other):
        Compared.times += 1
        return self is other

    __hash__ = object.__hash__


class Comparing:
    """An event loop with such waiters."""

    def __init__(self):
        self.reactor = current_reactor()

    def waiter(self):
        return Compared(self.reactor.waiter())


@pytest.mark.parametrize("step", [1, -1], ids=["oldest first", "newest first"])
async def test_a_call_that_leaves_is_not_searched_for_among_the_others(step):
    Compared.times = 0
    async with anyio.create_task_group() as tasks:
        queue = Queue(tasks, Comparing())
        for name in range(100):
            await queue.put(name)
        for name in range(1, 100)[::step]:
            await queue.leave(name)
        await queue.release(1)
        assert (queue.got, queue.slots.free) == ([0], 1)
    assert Compared.times < 100
