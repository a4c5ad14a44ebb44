from __future__ import annotations

import contextlib

import anyio
import pytest
from rpc import Connections

from picohook.ext.sidecar.sidecar import Sidecar


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sidecar"


@pytest.fixture
async def connect(path):
    """Connects to the sidecar of the test."""
    connections = Connections(path)
    yield connections
    await connections.aclose()


@pytest.fixture
def serving(path):
    """A host, entered, and its sidecar at the path, which ends with the block."""

    @contextlib.asynccontextmanager
    async def serving(host, **settings):
        async with host:
            sidecar = Sidecar(host, **settings)
            sidecar.server = server = await sidecar.at_socket(path)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sidecar.serve, server)
                try:
                    yield sidecar
                finally:
                    tasks.cancel_scope.cancel()

    return serving
