"""Fixtures of all tests that start hooks: a `conftest.py` imports those that its tests use."""

from __future__ import annotations

import pytest
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
