"""What all tests share: an event loop for each, fixtures, and Hypothesis with the same examples in every run."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

sys.path += [str(Path(__file__).parent), *(str(Path(__file__).with_name(name)) for name in ("faults", "helpers"))]

import needs
import preloaded
import run
from loops import by_turns

pytest_plugins = ["config_files", "endpoint", "packages", "plugin", "program", "quick", "shared_fixtures", "workers"]
anyio_backend = by_turns
run.begin()
# Where hosts remember the pauses that were used.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="picohook-state-")
atexit.register(
    lambda directory, owner: os.getpid() == owner and shutil.rmtree(directory, ignore_errors=True),
    os.environ["XDG_STATE_HOME"],
    os.getpid(),
)
# As in an environment that is activated: `python3` is this Python, and not a shim that searches for one, which takes longer.
os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.register_profile("few", parent=settings.get_profile("ci"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


LONGEST_IN_ID = 60
"""Characters of a parameter that a test's id shows."""


def pytest_make_parametrize_id(val: object) -> str | None:
    """Say how long a parameter is, rather than all of it. pytest numbers those that are equally long."""
    return f"{type(val).__name__}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > LONGEST_IN_ID else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start what all workers share. It imports while the tests are collected."""
    if session.config.pluginmanager.getplugin("workers").workers(session.config) > 1:
        preloaded.preloaded_socket("everything")  # without a C compiler, its programs do not need it
        preloaded.programs()
        preloaded.program("python", "hooks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need rooms which this checkout lacks."""
    lacking = [item for item in items if needs.missing(item)]
    if lacking:
        items[:] = [item for item in items if item not in lacking]
        config.hook.pytest_deselected(items=lacking)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: nearly all that is made then is kept."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _only_the_modules_own_garbage() -> None:
    """Hide from the garbage collector everything that is there before the tests of a module: many of them run it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what is skipped in CI, where the tests are the last word: what was not tried did not pass."""
    return run.judged((yield), strict=bool(os.environ.get("CI")))
