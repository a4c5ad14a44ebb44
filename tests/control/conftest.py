from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

from fixtures import _no_process_is_left, board, journal  # noqa: F401
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
