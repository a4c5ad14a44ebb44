from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from grounds import HERE, grounds, lacking
from loops import both

anyio_backend = both


def pytest_collection_modifyitems(items):
    if sys.platform != "linux":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="containment beyond the process group is Linux's"))


@pytest.fixture(params=grounds("namespace", "sweep"))
def ground(request):
    why = lacking(request.param.tier, request.param.user)
    if why:
        pytest.skip(why)
    return request.param


@pytest.fixture
def tier(anyio_backend_name):
    """One tier on each loop: no tier knows which loop its host runs. Tests with `ground` try all of them on both."""
    tier = {"asyncio": "namespace", "trio": "sweep"}[anyio_backend_name]
    why = lacking(tier)
    if why:
        pytest.skip(why)
    return tier


@pytest.fixture
def backend(anyio_backend_name):
    return anyio_backend_name
