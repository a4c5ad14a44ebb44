"""Claude Code's own hook files: settings, and the `hooks/hooks.json` of a plugin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..files.form import FileSettings, Form, Places, plugin_data, project_of, texts
from ..files.reader import read_with
from .contract import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....config.document import Config
    from ..files.handler_table import HandlerTable

_TIMEOUTS = {"prompt": 30.0, "agent": 60.0}
_AT_EVENTS = {
    "UserPromptSubmit": 30.0,
    "PreModelSwitch": 30.0,
    "PostModelSwitch": 30.0,
    "MessageDisplay": 10.0,
    "SessionEnd": 1.5,
}


def _places(config: Config) -> Places:
    project, above = project_of(config, ".claude"), config.path.parent.parent
    env = {"CLAUDE_PROJECT_DIR": str(project), "CLAUDECODE": "1"}
    if config.path.parent.name in {"hooks", ".claude-plugin"}:
        env |= {"CLAUDE_PLUGIN_ROOT": str(above), "CLAUDE_PLUGIN_DATA": str(plugin_data(above.name))}
    return Places(project, project, env)


def _settings(document: Mapping[str, Any]) -> FileSettings:
    plugins = 'enabledPlugins: picohook does not search plugins: name their "hooks/hooks.json" in [[foreign]]'
    return FileSettings(
        off="disableAllHooks: it is true" if document.get("disableAllHooks") is True else "",
        warnings=(plugins,) if document.get("enabledPlugins") else (),
        allowed_urls=texts(document.get("allowedHttpHookUrls")),
        allowed_env=texts(document.get("httpHookAllowedEnvVars")),
    )


def _matcher_warning(matcher: str) -> str:
    if NAMES.fullmatch(matcher) and any(
        name.strip().startswith("mcp__") and name.strip().count("__") < 2  # noqa: PLR2004 - mcp__SERVER__TOOL
        for name in matcher.replace(",", "|").split("|")
    ):
        return (
            f"{matcher} is the whole name of a tool, and no tool has it: mcp__SERVER__.* matches all tools of a server"
        )
    return ""


def _command(_event: str, table: HandlerTable) -> dict[str, Any]:
    if table.args is not None:
        return {"command": (table.command, *table.args)}
    if table.shell == "powershell":
        return {"command": ("pwsh", "-NoProfile", "-NonInteractive", "-Command", table.command)}
    return {"command": ("bash", "-c", table.command)} if table.shell == "bash" else {"run": table.command}


FORM = Form(
    dialect="claude",
    places=_places,
    timeout=lambda kind, event: _AT_EVENTS.get(event, _TIMEOUTS.get(kind, 600.0)),
    types={
        "command": "",
        "http": "",
        "prompt": "",
        "agent": "picohook has no agent of its own to ask",
        "mcp_tool": "picohook is no client of MCP servers",
    },
    matcher_warning=_matcher_warning,
    command=_command,
    settings=_settings,
    keys=frozenset(
        """
        type if timeout statusMessage once onFailure command args async asyncRewake shell url headers allowedEnvVars server tool
        input prompt model continueOnBlock
        rewakeMessage rewakeSummary
        """.split()  # noqa: SIM905 - many lines otherwise
    ),
    only_commands=("SessionStart", "Setup"),
    longest_timeouts={"SessionEnd": 60.0},
)

read = partial(read_with, FORM)
