"""A user with a home, and a project of theirs: real files, found where they are looked for."""

from __future__ import annotations

import json
import sys
import textwrap
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from picohook.config import load
from picohook.projects import layers
from picohook.projects.trust import trust

collect_ignore = [] if find_spec("picohook.ext") else ["test_discovered_host.py", "test_models.py"]
"""These files are about extensions, too."""

if TYPE_CHECKING:
    from pathlib import Path

SIGN = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"ok": True}
    if request["method"] == "hook.before_prompt":
        result = {"action": "modify", "prompt": request["params"]["prompt"] + " " + sys.argv[1]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
"""A hook that signs what it is asked about."""


class Place:
    """A directory in which configurations lie."""

    def __init__(self, path: Path, own: Path, jcli: Path) -> None:
        self.path = path
        self.own = own
        """Where picohook's configuration goes."""
        self.jcli = jcli
        """j-cli's file."""

    def write(self, path: Path | str, text: str) -> Path:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))
        target.chmod(0o644)
        return target

    def hooks(self, *names: str, defaults: str = "", within: str | None = None, **settings: object) -> Path:
        """A configuration whose hooks sign with their names and where they are."""
        directory = self.own if within is None else self.path / within
        if not (directory / "sign.py").exists():  # written again, it has changed
            self.write(directory / "sign.py", SIGN)
        text = f"[defaults]\n{textwrap.dedent(defaults)}\n" if defaults else ""
        for name in names:
            command = [sys.executable, "sign.py", name]
            table = {"command": command, "stages": ["before_prompt"], **settings}
            lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
            text += f"[hooks.{name}]\n{lines}\n"
        return self.write(directory / "picohook.toml", text or "[hooks]\n")

    def jcli_hook(self, word: str, event: str = "pre_send_message") -> Path:
        """j-cli's file, with one hook that signs with this word."""
        script = (
            f"import json, sys; print(json.dumps({{'user_input': json.load(sys.stdin)['user_input'] + ' {word}'}}))"
        )
        entry = json.dumps(f'{sys.executable} -c "{script}"')
        return self.write(self.jcli, f"{event}:\n  - command: {entry}\n    trust: []\n")


@pytest.fixture
def user(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    (home / "config" / "picohook").mkdir(parents=True)
    return Place(home, home / "config" / "picohook", home / ".jdata" / "agent" / "hooks.yaml")


@pytest.fixture
def project(tmp_path, user, monkeypatch):
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return Place(path, path, path / ".jcli" / "hooks.yaml")


def trust_all(place: Place) -> None:
    """What `picohook trust` does."""
    for path in layers.project_configs(place.path):
        trust(load(path, found=True))
