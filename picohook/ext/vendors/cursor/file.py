"""Cursor's own hook files, `hooks.json`: a list of handlers for each event, each with its own matcher."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..files.form import FileSettings, Form, Places, home
from ..files.handler_table import HandlerTable
from ..files.reader import read_with
from .events import CURSOR_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....config.document import Config


class CursorHandler(HandlerTable):
    """A handler of Cursor."""

    fails_closed: bool = Field(default=False, alias="failClosed")
    most_blocks: int | None = Field(default=5, ge=0, alias="loop_limit")

    @property
    def blocks_on_failure(self) -> bool:
        return self.fails_closed


def _places(config: Config) -> Places:
    """A project's handlers run in the project. All others run in the directory of their file."""
    file, above = config.path, config.path.parent.parent
    in_project = file.parent.name == ".cursor" and above != home()
    project = above if in_project else config.work
    env = {
        "CURSOR_PROJECT_DIR": str(project),
        "CURSOR_VERSION": CURSOR_VERSION,
        "CLAUDE_PROJECT_DIR": str(project),
    }
    return Places(project, project if in_project else file.parent, env)


def _settings(document: Mapping[str, Any]) -> FileSettings:
    version = document.get("version", 1)
    return FileSettings(warnings=() if version == 1 else (f"version: {version} is not known: it is read as 1",))


FORM = Form(
    dialect="cursor",
    places=_places,
    timeout=lambda kind, _event: 30.0 if kind == "prompt" else 60.0,
    types={"command": "", "prompt": ""},
    command=lambda _event, table: {"run": table.command},
    keys=frozenset({"type", "command", "prompt", "model", "timeout", "matcher", "failClosed", "loop_limit"}),
    handler=CursorHandler,
    layout="handlers",
    settings=_settings,
)

read = partial(read_with, FORM)
