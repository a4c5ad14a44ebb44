"""Codex's own hook files: `hooks.json`, and the `hooks` of `config.toml`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....hooks.foreign.codex.matcher import matches
from .form import Form, Places, home

if TYPE_CHECKING:
    from ...document import Config
    from .handler_table import HandlerTable

_SKIPS = "Codex itself skips it"


def _places(config: Config) -> Places:
    """A project's file names the project. For any other file, the project is the host's working directory."""
    file, above = config.path, config.path.parent.parent
    project = above if file.parent.name == ".codex" and above != home() else config.work
    env: dict[str, str] = {}
    if file.parent.name in {"hooks", ".codex-plugin"}:
        import platformdirs  # noqa: PLC0415 - only for plugins

        data = str(Path(platformdirs.user_data_path("picohook")) / "plugins" / above.name)
        env = {
            f"{prefix}PLUGIN_{name}": path
            for prefix in ("", "CLAUDE_")
            for name, path in (("ROOT", str(above)), ("DATA", data))
        }
    return Places(project, project, env)


def _timeout(_kind: str, event: str) -> float:
    return 1.0 if event in {"SessionEnd", "Interrupt"} else 600.0


def _check_matcher(_event: str, matcher: str) -> str:
    matches(matcher, ())
    return ""


def _command(_event: str, table: HandlerTable) -> dict[str, Any]:
    """A login shell, as Codex starts it."""
    return {"command": (os.environ.get("SHELL") or "/bin/sh", "-lc", table.command)}


FORM = Form(
    dialect="codex",
    places=_places,
    timeout=_timeout,
    types={"command": "", "mcp_tool": "picohook is no client of MCP servers", "prompt": _SKIPS, "agent": _SKIPS},
    check_matcher=_check_matcher,
    command=_command,
    keys=frozenset(
        {"type", "command", "commandWindows", "timeout", "statusMessage", "additionalContextLimit", "async"}
        | {"server", "tool", "input", "prompt"}
    ),
    longest_timeouts={"SessionEnd": 3.0, "Interrupt": 3.0},
    shortest_timeout=1.0,
    not_events=("state", "managed_dir"),
    unsupported={
        "commandWindows": "picohook runs on Unix",
        "statusMessage": "picohook shows no status",
        "state": "whether a handler was reviewed in Codex does not count: a project's file needs picohook's trust",
        "managed_dir": "managed requirements are not read",
    },
)
