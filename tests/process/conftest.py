from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

from scripted import Journal, Switchboard, children


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def board():
    board = Switchboard()
    yield board
    board.close()


@pytest.fixture(autouse=True)
def _no_process_is_left():
    before = children()
    yield
    assert children().keys() <= before.keys()
