"""The fixture `anyio_backend` for a module whose tests try what does not know the event loop.

from loops import by_turns as anyio_backend  # noqa: F401
"""

from __future__ import annotations

from typing import Any

import pytest

LOOPS: tuple[tuple[str, dict[str, Any]], ...] = (("asyncio", {"use_uvloop": False}), ("trio", {}))


@pytest.fixture
def by_turns(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each test on one loop, half of them on each."""
    return loop_of(request.node.name)


def loop_of(test: str) -> tuple[str, dict[str, Any]]:
    """The loop of a test: the same in every run."""
    return LOOPS[sum(test.encode()) % len(LOOPS)]
