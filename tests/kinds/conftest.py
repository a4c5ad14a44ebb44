from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "hooks")]

from endpoint import endpoint  # noqa: F401
from fixtures import _no_process_is_left, board, journal  # noqa: F401

from picohook import HookSpec


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
