from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

import scripted
from scripted import Journal, Switchboard, children


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def board():
    board = Switchboard()
    yield board
    board.close()


@pytest.fixture(params=["group", "best"])
def contain(request, monkeypatch):
    """Directly a child of the host; and of a launcher, where the machine has what that needs."""
    monkeypatch.setattr(scripted, "CONTAIN", request.param)
    return request.param


@pytest.fixture(autouse=True)
def _no_process_is_left():
    before = children()
    yield
    assert children().keys() <= before.keys()
