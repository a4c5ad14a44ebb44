from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parent)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of a user, whose home is elsewhere."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def write(project):
    """Writes a file of the project: text as it is, anything else as JSON."""

    def write(name: str, content: Any, mode: int = 0o644) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        for program in ("jq", "node"):
            if re.search(rf"\b{program} ", text) and shutil.which(program) is None:
                pytest.skip(f"a handler of this test needs {program}")
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write


@pytest.fixture
def settings(write):
    """Writes Claude Code's settings with handlers for events: `settings(PreToolUse="a command")`."""

    def settings(**events: Any) -> Path:
        return write(".claude/settings.json", {"hooks": {event: groups(given) for event, given in events.items()}})

    return settings


def groups(given: Any) -> list[Any]:
    if isinstance(given, list):
        return given
    handler = {"type": "command", "command": given} if isinstance(given, str) else given
    return [{"matcher": handler.pop("matcher", "") if isinstance(handler, dict) else "", "hooks": [handler]}]
