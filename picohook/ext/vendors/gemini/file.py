"""Gemini CLI's own hook files: settings, and the `hooks/hooks.json` of an extension."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from ..files.form import FileSettings, Form, Places, project_of, texts
from ..files.handler_table import HandlerTable
from ..files.reader import read_with
from ..patterns import javascript
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....config.document import Config

_DIRECTORIES = ("GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR")
_UNQUOTED = re.compile(
    rf"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(\$(?:{"|".join(_DIRECTORIES)}|GEMINI_SESSION_ID)\b)""", re.DOTALL
)
"""A part of a command that the shell does not split, or a variable that it would split."""
_SWITCHES = ("enabled", "disabled", "notifications")


class GeminiHandler(HandlerTable):
    """A handler has to say its type."""

    type: str


def _places(config: Config) -> Places:
    project = project_of(config, ".gemini")
    env = dict.fromkeys(_DIRECTORIES, str(project))
    if config.path.parent.name == "hooks":
        env |= {"extensionPath": str(config.path.parent.parent), "workspacePath": str(project), "pathSeparator": "/"}
    return Places(project, project, env)


def _settings(document: Mapping[str, Any]) -> FileSettings:
    switches = document.get("hooksConfig")
    switches = switches if isinstance(switches, dict) else {}
    return FileSettings(
        off="hooksConfig.enabled: it is false" if switches.get("enabled") is False else "",
        disabled=texts(switches.get("disabled")) or (),
    )


def _command(_event: str, table: HandlerTable) -> dict[str, Any]:
    """The command for bash, with quotes around the variables of directories. Gemini CLI replaces them with quoted paths."""
    text = table.command.replace("${/}", "/")
    command = _UNQUOTED.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text)
    return {"command": ("bash", "-c", command)}


FORM = Form(
    dialect="gemini",
    places=_places,
    timeout=lambda _kind, _event: 60.0,
    types={
        "command": "",
        "runtime": "it is a function of Gemini CLI's own program",
        "plugin": "Gemini CLI itself skips it",
    },
    matcher_problem=lambda event, matcher: javascript(matcher).problem if EVENTS[event].matched == "tool_name" else "",
    command=_command,
    keys=frozenset({"type", "command", "name", "description", "timeout", "env"}),
    handler=GeminiHandler,
    group_keys=frozenset({"matcher", "hooks", "sequential"}),
    settings=_settings,
    identity=lambda table: f"{table.name}:{table.command}",
    unit=0.001,
    not_events=_SWITCHES,
)

read = partial(read_with, FORM)
