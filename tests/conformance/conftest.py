from __future__ import annotations

import preloaded
import pytest


@pytest.fixture(autouse=True)
def _hooks_are_forked():
    """The path of this program is in the tests' commands."""
    preloaded.program("python")
