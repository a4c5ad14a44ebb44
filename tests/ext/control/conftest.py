from __future__ import annotations

import pytest
from rpc import Connections


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control"


@pytest.fixture
async def connect(path):
    """Connects to the host of the test."""
    connections = Connections(path)
    yield connections
    await connections.aclose()
