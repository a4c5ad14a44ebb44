"""GitHub Copilot's own hook files: those of its hooks directories, its settings, and the `hooks.json` of a plugin."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from ....model.spec import Seconds  # noqa: TC001 - pydantic reads it at run time
from ..files.form import FileSettings, Form, Places, plugin_data
from ..files.handler_table import HandlerTable
from ..files.reader import read_with
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....config.document import Config

_DIRECTORY, _TEMPLATE = "${CLAUDE_PROJECT_DIR}", "{{project_dir}}"
_LOCAL = re.compile(r"http://(localhost|127(\.\d+){3}|\[::1\])([:/]|$)")


class CopilotHandler(HandlerTable):
    """A handler has a command for each kind of shell, or a program without a shell."""

    bash: str = ""
    powershell: str = ""
    program: str = Field(default="", alias="exec")
    timeout_sec: Seconds | None = Field(default=None, alias="timeoutSec")

    @model_validator(mode="after")
    def _one_command(self) -> Self:
        texts = self.bash or self.command or self.powershell
        if self.program and texts:
            raise ValueError("has `exec`, and a command for a shell: only one of them can run")
        args = tuple(arg.replace(_TEMPLATE, _DIRECTORY) for arg in self.args or ()) if self.program else None
        object.__setattr__(self, "command", (self.program or texts).replace(_TEMPLATE, _DIRECTORY))
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "timeout", self.timeout if self.timeout_sec is None else self.timeout_sec)
        return self

    @property
    def cannot_run(self) -> str:
        is_for_unix = self.program or self.bash or "command" in self.model_fields_set
        return "" if is_for_unix or not self.powershell else "it has a command for PowerShell alone"


def _places(config: Config) -> Places:
    """A project's file names the project. For any other file, the project is the host's working directory."""
    file = config.path
    owner, above = file.parent.parent, file.parent.parent.parent
    in_project = owner.name == ".github" and file.parent.name in {"hooks", "copilot"}
    project = above if in_project else config.work
    env = {"COPILOT_CLI": "1", "CLAUDE_PROJECT_DIR": str(project)}
    if not in_project and file.name == "hooks.json" and owner.name != ".copilot":
        root = owner if file.parent.name == "hooks" else file.parent
        names = ("PLUGIN_ROOT", "COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT")
        env |= {**dict.fromkeys(names, str(root)), "CLAUDE_PLUGIN_DATA": str(plugin_data(root.name))}
    return Places(project, project, env)


def _settings(document: Mapping[str, Any]) -> FileSettings:
    version = document.get("version", 1)
    return FileSettings(
        off="disableAllHooks: it is true" if document.get("disableAllHooks") is True else "",
        problem="" if version == 1 and version is not True else "is not 1: Copilot does not load the file",
    )


def _check_url(event: str, url: str) -> str:
    """Refuse a URL without TLS, unless it is on this machine, the user allows it, and it does not decide about calls."""
    local = os.environ.get("COPILOT_HOOK_ALLOW_LOCALHOST") == "1" and _LOCAL.match(url) and not EVENTS[event].gate
    return "" if url.startswith("https://") or local else "is not a URL of https"


FORM = Form(
    dialect="copilot",
    places=_places,
    timeout=lambda _kind, _event: 30.0,
    types={"command": "", "http": "", "prompt": "picohook submits no prompts of its own accord"},
    check_url=_check_url,
    command=lambda _event, table: {
        "command": ("bash", "-c", table.command) if table.args is None else (table.command, *table.args)
    },
    handler=CopilotHandler,
    layout="both",
    in_order=True,
    settings=_settings,
    expands_env=True,
    keys=frozenset(
        {"type", "bash", "powershell", "command", "exec", "args", "cwd", "env", "timeout", "timeoutSec", "matcher"}
        | {"url", "headers", "allowedEnvVars", "prompt"}
    ),
)

read = partial(read_with, FORM)
