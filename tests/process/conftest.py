from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

import scripted
from fixtures import _no_process_is_left, board, journal  # noqa: F401


@pytest.fixture(params=["group", "best"])
def contain(request, monkeypatch):
    """Directly a child of the host; and of a launcher, where the machine has what that needs."""
    monkeypatch.setattr(scripted, "CONTAIN", request.param)
    return request.param
