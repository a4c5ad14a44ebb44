"""Marks tests in the folders of the core and of the offered rooms that are about other rooms, too.

A checkout without those rooms leaves the tests out: see `tests/alone.py`.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

extensions = pytest.mark.needs("ext")
other_rooms = pytest.mark.needs("contain", "ext", "projects", "reload", "sdk", "sessions")


def missing(item: pytest.Item) -> bool:
    """Whether this checkout lacks a room that the test needs."""
    return any(find_spec(f"picohook.{room}") is None for mark in item.iter_markers("needs") for room in mark.args)
