"""Codex's own hook files: `hooks.json`, and the `hooks` of `config.toml`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from ..files.form import Form, Places, plugin_data, project_of
from ..files.reader import read_with
from ..patterns import rust

if TYPE_CHECKING:
    from ....config.document import Config
    from ..files.handler_table import HandlerTable

_SKIPS = "Codex itself skips it"


def _places(config: Config) -> Places:
    project, above = project_of(config, ".codex"), config.path.parent.parent
    env: dict[str, str] = {}
    if config.path.parent.name in {"hooks", ".codex-plugin"}:
        env = {
            f"{prefix}PLUGIN_{name}": str(path)
            for prefix in ("", "CLAUDE_")
            for name, path in (("ROOT", above), ("DATA", plugin_data(above.name)))
        }
    return Places(project, project, env)


def _command(_event: str, table: HandlerTable) -> dict[str, Any]:
    """A login shell, as Codex starts it."""
    return {"command": (os.environ.get("SHELL") or "/bin/sh", "-lc", table.command)}


FORM = Form(
    dialect="codex",
    places=_places,
    timeout=lambda _kind, event: 1.0 if event in {"SessionEnd", "Interrupt"} else 600.0,
    types={"command": "", "mcp_tool": "picohook is no client of MCP servers", "prompt": _SKIPS, "agent": _SKIPS},
    matcher_problem=lambda _event, matcher: rust(matcher).problem,
    command=_command,
    keys=frozenset(
        {"type", "command", "commandWindows", "timeout", "statusMessage", "additionalContextLimit", "async"}
        | {"server", "tool", "input", "prompt"}
    ),
    longest_timeouts={"SessionEnd": 3.0, "Interrupt": 3.0},
    shortest_timeout=1.0,
    not_events=("state", "managed_dir"),
)

read = partial(read_with, FORM)
