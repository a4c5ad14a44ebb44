"""The turns of starts: a few at once while the processors are busy, more while one is free."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

import anyio
import pytest

from picohook.process import start_turns
from picohook.process.start_turns import StartTurns
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Start:
    number: int
    pid: int = 0


class Starts:
    """Starts that ask for their turn one after another, and note which have it."""

    def __init__(self) -> None:
        self.turns = StartTurns(current_reactor())
        self.have: list[int] = []
        self.changed = anyio.Event()

    async def take(self, number: int, pid: int = 0) -> None:
        await self.turns.take(Start(number, pid))
        self.have.append(number)
        self.changed.set()
        self.changed = anyio.Event()

    def over(self, number: int) -> None:
        self.turns.over(Start(number))

    async def had(self, count: int) -> list[int]:
        """Wait until so many had their turn. Returns them in order."""
        while len(self.have) < count:
            await self.changed.wait()
        return self.have


@pytest.fixture
def three_at_once(monkeypatch):
    monkeypatch.setattr(start_turns, "LEAST", 3)
    monkeypatch.setattr(start_turns, "FOR_EACH_PROCESSOR", 0)


@pytest.fixture
def busy(monkeypatch, three_at_once):
    """A machine on which no processor is free."""
    monkeypatch.setattr("picohook.wire.platforms.LINUX", True)
    monkeypatch.setattr("picohook.wire.platforms.processors", lambda: 0)
    monkeypatch.setattr(start_turns, "TURN_MOST", 3600.0)
    monkeypatch.setattr(start_turns, "SHORT", 0.0)


async def test_on_a_busy_machine_few_start_at_once_and_each_end_lets_the_next_one_start(busy):
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(6):
            tasks.start_soon(starts.take, start)
            await anyio.wait_all_tasks_blocked()
        starts.turns._look()
        assert await starts.had(3) == [0, 1, 2]
        starts.over(1)
        starts.over(1)
        assert await starts.had(4) == [0, 1, 2, 3]
        starts.turns._look()
        await anyio.wait_all_tasks_blocked()
        assert len(starts.have) == 4
        starts.over(0)
        starts.over(2)
        assert sorted(await starts.had(6)) == [0, 1, 2, 3, 4, 5]


async def test_each_short_turn_lets_one_more_start_at_once_up_to_a_number_and_a_long_turn_sets_this_back(
    busy, monkeypatch
):
    monkeypatch.setattr(start_turns, "SHORT", 3600.0)
    monkeypatch.setattr(start_turns, "SHORT_MOST", 5)
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(12):
            tasks.start_soon(starts.take, start)
            await anyio.wait_all_tasks_blocked()
        for over, have in (0, 5), (1, 7), (2, 8):  # 4, 5 and 5 at once
            starts.over(over)
            await anyio.wait_all_tasks_blocked()
            assert len(starts.have) == have
        monkeypatch.setattr(start_turns, "SHORT", 0.0)
        for over, have in (3, 8), (4, 8), (5, 9):  # 3 at once
            starts.over(over)
            await anyio.wait_all_tasks_blocked()
            assert len(starts.have) == have
        for over in range(6, 12):
            starts.over(over)


async def test_a_start_that_is_given_up_leaves_its_turn_to_others(busy):
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(3):
            await starts.take(start)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await starts.take(3)
        starts.over(3)
        tasks.start_soon(starts.take, 4)
        await anyio.wait_all_tasks_blocked()
        starts.over(0)
        assert await starts.had(4) == [0, 1, 2, 4]


async def test_a_start_that_takes_long_no_longer_holds_up_others(busy, monkeypatch):
    monkeypatch.setattr(start_turns, "TURN_MOST", 0.0)
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(9):
            tasks.start_soon(starts.take, start)
        assert sorted(await starts.had(9)) == [*range(9)]


async def test_while_a_processor_is_free_starts_that_wait_for_something_else_do_not_hold_up_others(
    three_at_once, monkeypatch
):
    monkeypatch.setattr("picohook.wire.platforms.LINUX", False)  # where the system does not say, it counts as free
    monkeypatch.setattr(start_turns, "TURN_MOST", 3600.0)
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(40):
            tasks.start_soon(starts.take, start)
        assert sorted(await starts.had(40)) == [*range(40)]


async def test_a_process_that_does_not_want_a_processor_does_not_hold_up_others(busy, sleeper):
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for number in range(2):
            await starts.take(number, os.getpid())  # which runs
        await starts.take(2, sleeper)
        tasks.start_soon(starts.take, 3)
        assert await starts.had(4) == [0, 1, 2, 3]
        tasks.start_soon(starts.take, 4)
        await anyio.wait_all_tasks_blocked()
        starts.turns._look()
        await anyio.wait_all_tasks_blocked()
        assert len(starts.have) == 4
        starts.turns.over(Start(0, os.getpid()))
        await starts.had(5)


@pytest.fixture
def sleeper():
    """The pid of a process that waits for its input."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process.pid
