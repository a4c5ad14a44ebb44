from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

import scripted
from fixtures import _no_process_is_left, board, journal  # noqa: F401
from loops import both

anyio_backend = both


@pytest.fixture
def contain(anyio_backend_name, monkeypatch):
    """A launcher starts the hooks on asyncio, where the machine has what that needs; the host itself starts them on trio."""
    contain = {"asyncio": "best", "trio": "group"}[anyio_backend_name]
    monkeypatch.setattr(scripted, "CONTAIN", contain)
    return contain
