"""Fixtures of all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scripted import Journal, Switchboard, children

from picohook import HookSpec

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Writes a configuration file, and goes where it is."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return path

    return write


@pytest.fixture
def script(tmp_path):
    """Writes a program."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def shell_hook():
    """A hook that is a shell command, asked at before_tool if nothing else is said."""

    def make(command: str, **settings: Any) -> HookSpec:
        if not {"stages", "observe"} & settings.keys():
            settings["stages"] = ("before_tool",)
        return HookSpec.model_validate({"name": "run", "run": command, **settings})

    return make


class Output:
    """A logger that keeps what hooks write on stderr, and what the host warns of."""

    def __init__(self):
        self.stderr = []
        self.warnings = []

    def debug(self, event, **fields):
        pass

    def info(self, event, **fields):
        if event == "stderr":
            self.stderr.append(fields["line"])

    def warning(self, event, **fields):
        self.warnings.append((event, fields))

    error = warning


@pytest.fixture
def output():
    return Output()
