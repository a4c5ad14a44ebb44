from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import anyio
import preloaded
import pytest
import toolchains

from picohook import HookSpec
from picohook.testing import RecordingHost

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


class Told(Output):
    """The host's log, which tells when the page's address is there."""

    def __init__(self):
        super().__init__()
        self.found = anyio.Event()
        self.url = ""

    def info(self, event, **fields):
        super().info(event, **fields)
        if event == "stderr" and "http://" in fields["line"]:
            self.url = fields["line"].split()[-1]
            self.found.set()


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


@pytest.fixture
async def web_approval(request):
    """A host with the hook that asks on a page, and the page's address. A parameter is its approval's timeout."""
    told = Told()
    command = (preloaded.program("python"), str(EXAMPLES / "web_approval.py"), "--port", "0")
    spec = HookSpec(
        name="person", command=command, stages=("approve_tool",), approval_timeout=getattr(request, "param", 60)
    )
    async with RecordingHost([spec], logger=told) as host:
        await told.found.wait()
        yield host, told.url
