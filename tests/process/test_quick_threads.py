"""Threads for work of microseconds: no call waits for more than its own function, and none holds up the event loop."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import loops
import pytest

from picohook.process.quick_threads import QuickThreads

pytestmark = pytest.mark.anyio
anyio_backend = loops.both


@pytest.fixture
async def threads():
    made = QuickThreads(2)
    yield made
    made.close()


async def test_a_result_and_an_error_are_those_of_the_function(threads):
    assert await threads.run(threading.current_thread) is not threading.main_thread()
    assert await threads.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 7, 0)
    assert await threads.run(divmod, 7, 2) == (3, 1)


async def test_no_more_threads_are_started_than_there_are_calls_at_once_or_than_may_be(threads):
    seen, meet = set(), threading.Barrier(2)

    def work(wait):
        seen.add(threading.current_thread())
        if wait:
            meet.wait()

    for _ in range(5):
        await threads.run(work, False)
    assert len(seen) == 1
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(threads.run, work, True)
    assert len(seen) == 2


async def test_what_is_cancelled_before_its_turn_is_not_called_and_a_function_that_hangs_holds_up_no_other(threads):
    called, go, begun = [], threading.Event(), threading.Semaphore(0)

    def hangs():
        begun.release()
        go.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(threads.run, hangs)
        await threads.run(begun.acquire)
        assert await threads.run(divmod, 7, 2) == (3, 1)
        tasks.start_soon(threads.run, hangs)
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await threads.run(called.append, 1)
        tasks.cancel_scope.cancel()
    go.set()
    await threads.run(divmod, 7, 2)
    assert called == []


async def test_the_threads_end_when_they_are_closed():
    threads = QuickThreads(2)
    thread = await threads.run(threading.current_thread)
    threads.close()
    await anyio.to_thread.run_sync(thread.join)
    assert not thread.is_alive()
