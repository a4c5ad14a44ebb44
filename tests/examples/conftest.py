from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import preloaded
import pytest
import toolchains

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "hooks_examples"


def needed(program, install):
    """Where this program is. Where it is not, the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}: {install}")
    return found


class Output:
    """A logger that keeps the hooks' stderr, line by line, and what the host found wrong with them."""

    def __init__(self):
        self.stderr = {}
        self.complaints = []

    def debug(self, event, **fields):
        pass

    def info(self, event, **fields):
        if event == "stderr":
            self.stderr.setdefault(fields["hook"], []).append(fields["line"])

    def warning(self, event, **fields):
        self.complaints.append((event, fields))

    error = warning


@pytest.fixture
def output():
    return Output()


@pytest.fixture(autouse=True)
def where_the_examples_are_run(monkeypatch):
    """As from a checkout with its environment activated: PicoClaw's format takes relative directories from there."""
    monkeypatch.chdir(ROOT)
    for place in (os.path.dirname(sys.executable), preloaded.programs(), toolchains.programs()):
        monkeypatch.setenv("PATH", place, prepend=os.pathsep)


@pytest.fixture(scope="session")
def shared(shared_directory):
    """One directory for all the workers."""
    place = shared_directory / "languages"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(params=["picohook.toml", "picoclaw.json"])
def config(request):
    return EXAMPLES / request.param
