from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "hooks")]

from scripted import Switchboard


@pytest.fixture
def board():
    board = Switchboard()
    yield board
    board.close()
