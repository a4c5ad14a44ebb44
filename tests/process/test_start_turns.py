"""The turns of starts: a few at once, and none that holds up others for long."""

from __future__ import annotations

import anyio
import pytest

from picohook import Log, Timeouts
from picohook.process import restart
from picohook.process.group import GroupSpawner
from picohook.process.restart import StartTurns
from picohook.process.spawn import ProcessServices
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio


@pytest.fixture
def three_at_once(monkeypatch):
    monkeypatch.setattr(restart, "LEAST", 3)
    monkeypatch.setattr(restart, "FOR_EACH_PROCESSOR", 0)
    monkeypatch.setattr(restart, "TURN", 3600.0)


class Starts:
    """Starts that ask for their turn one after another, and note which have it."""

    def __init__(self) -> None:
        reactor = current_reactor()
        self.turns = StartTurns(ProcessServices(reactor, Log(), Timeouts(), GroupSpawner(reactor)))
        self.have: list[int] = []

    async def take(self, number: int) -> None:
        await self.turns.take(number)
        self.have.append(number)


async def test_few_start_at_once_and_each_end_lets_the_next_one_start(three_at_once):
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(6):
            tasks.start_soon(starts.take, start)
            await anyio.wait_all_tasks_blocked()
        assert starts.have == [0, 1, 2]
        for _ in range(2):
            starts.turns.over(1)
            await anyio.wait_all_tasks_blocked()
            assert starts.have == [0, 1, 2, 3]
        starts.turns.over(0)
        starts.turns.over(2)
    assert sorted(starts.have) == [0, 1, 2, 3, 4, 5]


async def test_a_start_that_is_given_up_leaves_its_turn_to_others(three_at_once):
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(3):
            await starts.take(start)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await starts.take(3)
        starts.turns.over(3)
        tasks.start_soon(starts.take, 4)
        await anyio.wait_all_tasks_blocked()
        starts.turns.over(0)
    assert starts.have == [0, 1, 2, 4]


async def test_a_start_that_takes_long_no_longer_holds_up_others(three_at_once, monkeypatch):
    monkeypatch.setattr(restart, "TURN", 0.0)
    starts = Starts()
    async with anyio.create_task_group() as tasks:
        for start in range(9):
            tasks.start_soon(starts.take, start)
    assert sorted(starts.have) == [*range(9)]
