"""What the tests of the integrations share."""

from __future__ import annotations

import pytest

from .drivers import FRAMEWORKS


@pytest.fixture(scope="module")
def anyio_backend():
    """These frameworks run on asyncio."""
    return "asyncio"


@pytest.fixture(params=FRAMEWORKS)
def run(request):
    """Runs a scripted agent in a framework."""
    return FRAMEWORKS[request.param]
