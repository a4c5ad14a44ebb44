"""Starts are paced by what the machine can do, and what waits for something else holds up nothing."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest
from scripted import HANG, HELLO, PATIENCE, SERVE, scripted

from picohook import Host, RestartPolicy, Timeouts, ToolCall
from picohook.process import start_turns
from picohook.process.start_turns import StartTurns
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)
CALL = ToolCall(tool="bash", arguments={})
NEVER = 1e6
SPINS = """
import os, select
os.write(1, b"spins")
while not select.select([0], [], [], 0)[0]:
    pass
os.read(0, 1)
os.read(0, 1)
"""
"""Uses the processor until it gets a byte, and then waits for another one."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process waits for")


@pytest.fixture
def one_at_a_time(monkeypatch):
    monkeypatch.setattr(start_turns, "LEAST", 1)
    monkeypatch.setattr(start_turns, "FOR_EACH_PROCESSOR", 0)
    monkeypatch.setattr(start_turns, "TURN_MOST", NEVER)


@pytest.fixture
def spinning():
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SPINS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout.read(5) == b"spins"
        yield process
        process.stdin.close()


@pytest.fixture
def looks(monkeypatch):
    """What was seen at each look at a process."""
    seen = []
    wants_processor = start_turns.wants_processor

    def look(pid):
        seen.append(wants_processor(pid))
        return seen[-1]

    monkeypatch.setattr(start_turns, "wants_processor", look)
    return seen


async def taken(turn):
    with anyio.fail_after(PATIENCE):
        await turn.take()


@on_linux
async def test_a_start_keeps_its_turn_while_it_wants_the_processor_and_no_longer(one_at_a_time, spinning, looks):
    turns = StartTurns(current_reactor())
    with turns.turn() as first, turns.turn() as second:
        async with anyio.create_task_group() as tasks:
            await first.take()
            first.runs(spinning.pid)
            second_has_it = anyio.Event()

            async def wait():
                await taken(second)
                second_has_it.set()

            tasks.start_soon(wait)
            with anyio.fail_after(PATIENCE):
                while len(looks) < 5:
                    await anyio.lowlevel.checkpoint()
            assert all(looks)
            assert not second_has_it.is_set()
            spinning.stdin.write(b".")
        assert looks[-1] is False


async def test_a_start_that_wants_the_processor_for_ever_holds_up_others_for_a_moment_only(
    one_at_a_time, spinning, monkeypatch
):
    monkeypatch.setattr(start_turns, "TURN_MOST", 0.02)
    turns = StartTurns(current_reactor())
    with turns.turn() as first, turns.turn() as second:
        await first.take()
        first.runs(spinning.pid)
        await taken(second)


async def test_a_start_whose_process_is_never_seen_holds_up_others_for_a_moment_only(one_at_a_time, monkeypatch):
    monkeypatch.setattr(start_turns, "TURN_MOST", 0.02)
    turns = StartTurns(current_reactor())
    with turns.turn() as first, turns.turn() as second:
        await first.take()
        await taken(second)


async def test_hooks_that_wait_before_their_hello_start_side_by_side(one_at_a_time, board):
    names = ("a", "b", "c")
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(host.mount, scripted(name, board.call(name), ["wait"], SERVE))
        for line in [await board.line(name) for name in names]:
            line.go_on()


async def test_a_start_that_ends_in_any_way_lets_the_next_one_begin(one_at_a_time, monkeypatch, board, tmp_path):
    """It fails before its hello or in it, cannot be started, or is cancelled while it is under way or waits for its turn."""
    monkeypatch.setattr(start_turns, "LOOK", NEVER)
    once = RestartPolicy(max_starts=1)
    not_a_program = tmp_path / "words"
    not_a_program.write_text("just some words\n")
    not_a_program.chmod(0o755)
    broken = scripted("broken").model_copy(update={"command": (str(not_a_program),)})
    ends = [
        scripted("ends", ["exit", 1], restart=once),
        broken,
        scripted("refuses", ["read"], ["reply", {"ok": False}], HANG, restart=once),
    ]
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        for hook in ends:
            await host.mount(hook)
        tasks.start_soon(host.mount, scripted("hangs", board.call("hangs"), HANG, grace=0.02))
        line = await board.line("hangs")
        for name in ("waits", "served"):
            tasks.start_soon(host.mount, scripted(name, HELLO, SERVE))
        await anyio.wait_all_tasks_blocked()
        await host.unmount("waits")
        await host.unmount("hangs")
        await line.dead()
        with anyio.fail_after(PATIENCE):
            outcome = await host.before_tool(CALL)
        assert {entry.hook for entry in outcome.trail if entry.error is None} >= {"served"}
