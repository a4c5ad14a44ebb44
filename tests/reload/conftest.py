from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from scripted import command

if TYPE_CHECKING:
    from pathlib import Path


class ConfigFile:
    """A configuration that is written again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hooks = {}
        self.defaults = {"interceptor_timeout": 60, "approval_timeout": 60, "hello_timeout": 60, "chain_budget": 60}

    def hook(self, name, *steps, **settings):
        """Have a hook that does these steps, from the next time it is written."""
        settings.setdefault("command", command(*(steps or (["serve"],))))
        if not {"stages", "observe"} & settings.keys():
            settings["stages"] = ["before_tool"]
        self.hooks[name] = settings

    def write(self):
        """In one step, as an editor that takes care does."""
        text = _table("defaults", self.defaults) + "".join(
            _table(f"hooks.{name}", settings) for name, settings in self.hooks.items()
        )
        new = self.path.with_name(".new")
        new.write_text(text or "[hooks]\n")
        os.replace(new, self.path)
        return self.path


def _table(name, settings):
    # JSON's strings, numbers, booleans and lists are TOML's.
    inner = {key: value for key, value in settings.items() if isinstance(value, dict)}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items() if key not in inner)
    return f"[{name}]\n{lines}\n" + "".join(_table(f"{name}.{key}", value) for key, value in inner.items())


@pytest.fixture
def config(tmp_path):
    return ConfigFile(tmp_path / "picohook.toml")
