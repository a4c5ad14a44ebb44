from __future__ import annotations

import time

import anyio
import pytest

from picohook.ext.approvals.queue import Queue, Waiting


class Log:
    """Keeps the warnings of a host."""

    def __init__(self):
        self.warnings = []

    def debug(self, event, **fields): ...

    info = error = debug

    def warning(self, event, **fields):
        self.warnings.append((event, fields["why"]))


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The user's directory for state, which is empty."""
    place = tmp_path / "state"
    place.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    return place


@pytest.fixture
def queue(state):
    """The queue, as a person's program opens it."""
    made = Queue()
    yield made
    made.close()


@pytest.fixture
def host(state):
    """The queue, as a host that lives opens it."""
    made = Queue(present=True)
    yield made
    made.close()


def a_call(call=b'{"tool":"bash","arguments":{"command":"ls"}}', lasts=60.0, **about):
    return Waiting(call, time.time() + lasts, about)


async def come(queue, count=1):
    """The calls that wait, once there are so many."""
    while True:
        waiting = queue.waiting()
        if len(waiting) == count:
            return waiting
        await anyio.sleep(0.01)
