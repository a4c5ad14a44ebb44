from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))
sys.path.append(str(Path(__file__).parent))

from fixtures import _no_process_is_left, board, journal  # noqa: F401
from grounds import HERE, grounds, lacking


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


@pytest.fixture(params=["namespace", "sweep"])
def tier(request):
    why = lacking(request.param)
    if why:
        pytest.skip(why)
    return request.param


@pytest.fixture
def backend(anyio_backend_name):
    return anyio_backend_name
