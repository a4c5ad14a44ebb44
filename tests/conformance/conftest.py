from __future__ import annotations

import preloaded
import pytest


@pytest.fixture(autouse=True)
def _hooks_are_forked():
    """The paths of these programs are in the tests' commands."""
    preloaded.programs()
    preloaded.program("python", "hooks")
