"""One NATS server for all tests of a process, and a tenant for each test."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from fakes import Connected, FakeWorker
from server import Server, program

from picohook import HookSpec, Host, NatsSettings

_names = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    if program() is None:
        pytest.skip("needs nats-server: apt-get install nats-server, or name one in PICOHOOK_NATS_SERVER")
    running = Server()
    yield running
    running.kill()


@pytest.fixture
def settings(server):
    """A connection in a tenant of the test's own."""
    return NatsSettings(servers=(server.url,), tenant=f"t{next(_names)}", host="host")


@pytest.fixture
def other(settings):
    """A connection of another process, as far as the host can see."""
    return lambda: Connected(settings)


@pytest.fixture
def serving(settings, other):
    """`async with serving(answer) as worker`: a worker that serves `policy`."""

    class Serving:
        def __init__(self, answer):
            self.answer = answer

        async def __aenter__(self):
            self.other = other()
            self.worker = FakeWorker(await self.other.__aenter__(), settings, self.answer)
            return await self.worker.__aenter__()

        async def __aexit__(self, *error):
            await self.worker.__aexit__(*error)
            await self.other.__aexit__(*error)

    return Serving


@pytest.fixture
def policy(settings):
    """`policy(...)` are the settings of the hook that a host asks."""

    def make(**more):
        given = {"stages": ("before_tool", "approve_tool"), "timeout": 20, "approval_timeout": 20, **more}
        return HookSpec(name="p", nats="policy", connection=settings, **given)

    return make


@pytest.fixture
def host(policy):
    return lambda *hooks, **more: Host([policy(**more), *hooks])
