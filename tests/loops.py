"""On which event loop a test runs. By default on one, half of the tests on each: most of what is tried does not know the loop.

A test about processes, cancellation or time-outs runs on both. It has the mark `ON_BOTH`, or its module or directory has the
fixture `both`:

import loops

anyio_backend = loops.both
"""

from __future__ import annotations

from typing import Any

import pytest

LOOPS: tuple[tuple[str, dict[str, Any]], ...] = (("asyncio", {"use_uvloop": False}), ("trio", {}))
NAMES = [name for name, _ in LOOPS]
ON_BOTH = pytest.mark.parametrize("anyio_backend", LOOPS, ids=NAMES)


@pytest.fixture(params=LOOPS, ids=NAMES)
def both(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each test on both loops."""
    return request.param


@pytest.fixture
def by_turns(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each test on one loop, half of them on each."""
    return loop_of(request.node.name)


def loop_of(test: str) -> tuple[str, dict[str, Any]]:
    """The loop of a test: the same in every run."""
    return LOOPS[sum(test.encode()) % len(LOOPS)]
