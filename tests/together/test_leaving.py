"""A host that is left, or closed, by another task than the one that entered it."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from loops import both
from scripted import children, held, scripted, settled

from picohook import AuditLog, FunctionHook, Host, Timeouts, ToolCall
from picohook.journal.ledger import verify

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)


def asking(**arguments):
    return ToolCall(tool="bash", arguments=arguments)


async def in_a_task_of_its_own(work):
    """What this returns, done in a task that ends with it."""
    done = []

    async def run():
        done.append(await work())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
    return done[0]


async def test_one_task_enters_it_and_another_one_leaves_it():
    before = held()
    host = Host([scripted("h", stages=("before_tool",), observe=("*",))], timeouts=FAR)
    assert await in_a_task_of_its_own(host.__aenter__) is host
    assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
    crashed = await host.before_tool(asking(do=[["exit", 3]]))
    assert "it exited with code 3" in crashed.trail[0].error
    assert (await host.before_tool(asking(nonce=2))).payload.arguments == {"echo": 2}
    await in_a_task_of_its_own(lambda: host.__aexit__(None, None, None))
    assert not children()
    await settled(before)


async def test_hooks_still_serve_after_the_task_that_entered_the_host_was_cancelled():
    host = Host([scripted("h")], timeouts=FAR)
    async with anyio.create_task_group() as tasks:
        entered = anyio.Event()

        async def enter():
            await host.__aenter__()
            entered.set()
            await anyio.sleep_forever()

        tasks.start_soon(enter)
        await entered.wait()
        tasks.cancel_scope.cancel()
    assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
    await host.aclose()
    assert not children()


async def test_any_task_closes_it_and_its_listeners_and_twice_is_fine(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl")
    async with Host([scripted("h")], timeouts=FAR, listeners=[log]) as host:
        await host.before_tool(asking())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.aclose)
            tasks.start_soon(host.aclose)
        assert not children()
        with open(log.path, "rb") as file:
            verdict = verify(file)
        assert (verdict.ok, verdict.notes) == (True, ())
    assert log.failures == 0


async def test_a_hook_may_close_its_own_host():
    closed = anyio.Event()

    async def close(event):
        await host.aclose()
        closed.set()

    async with Host([FunctionHook("f", on_event=close, grace=0.01)], timeouts=FAR) as host:
        host.emit("turn_start")
        with anyio.fail_after(60):
            await closed.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_repeated_cancellations_of_asyncio_leave_nothing_behind():
    host = Host([scripted("h", ["hello", {"ok": True}], ["ignore", "SIGTERM"], ["hang"], grace=0.1)], timeouts=FAR)
    await host.__aenter__()
    leaving = asyncio.create_task(host.aclose())
    await asyncio.sleep(0)
    while not leaving.done():
        leaving.cancel()
        await asyncio.sleep(0)
    assert leaving.cancelled()
    assert not children()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_host_can_be_left_when_every_task_of_the_loop_was_cancelled():
    before = asyncio.all_tasks()
    async with Host([scripted("h")], timeouts=FAR) as host:
        host._mounted.begin(anyio.sleep_forever)  # cancelled before its first step
        for task in asyncio.all_tasks() - before:
            task.cancel()
    assert not children()


def test_a_fixture_enters_it_in_one_run_of_the_loop_and_leaves_it_in_another():
    async def fixture():
        async with Host([scripted("h")], timeouts=FAR) as host:
            yield host

    async def use(host):
        return (await host.before_tool(asking(nonce=1))).payload.arguments

    with asyncio.Runner() as runner:
        generator = fixture()
        host = runner.run(anext(generator))
        assert runner.run(use(host)) == {"echo": 1}
        with pytest.raises(StopAsyncIteration):
            runner.run(anext(generator))
        assert not children()


def test_a_host_that_is_never_left_ends_with_its_event_loop():
    async def forget():
        await Host([scripted("h")], timeouts=FAR).__aenter__()
        assert len(children()) == 1

    asyncio.run(forget())
    assert not children()
