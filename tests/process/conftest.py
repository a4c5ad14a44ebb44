from __future__ import annotations

import pytest
import scripted
from loops import both

anyio_backend = both


@pytest.fixture
def contain(anyio_backend_name, monkeypatch):
    """A launcher starts the hooks on asyncio, where the machine has what that needs; the host itself starts them on trio."""
    contain = {"asyncio": "best", "trio": "group"}[anyio_backend_name]
    monkeypatch.setattr(scripted, "CONTAIN", contain)
    return contain
