from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))
sys.path.append(str(Path(__file__).parent))

from grounds import HERE, grounds, lacking
from scripted import Journal, Switchboard, children


def pytest_collection_modifyitems(items):
    if sys.platform != "linux":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="containment beyond the process group is Linux's"))


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
