from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "hooks_examples"


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
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)


@pytest.fixture(scope="session")
def shared(tmp_path_factory, request):
    """One directory for all the workers."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if hasattr(request.config, "workerinput") else base) / "languages"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(params=["picohook.toml", "picoclaw.json"])
def config(request):
    return EXAMPLES / request.param
