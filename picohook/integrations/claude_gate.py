"""Keeps the hooks of a Claude agent on: checks its settings, and makes a gate for agents that are resumed.

A resumed agent makes the call that was deferred as soon as it starts, at the same time as it registers the callbacks. If
the call is first, no hook is asked about it. So such an agent has a command hook in its settings, which it reads before it
makes any call. The command waits for a file that the callback writes, and denies the call if there is none.

An MCP server makes the agent wait for its control channel, on which it learns about the callbacks. So the file is there in
time.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import weakref
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import create_sdk_mcp_server

from .. import PicohookError

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

WITHOUT_HOOKS = {
    "bare": "the agent asks no hooks",
    "safe-mode": "the agent reads no settings",
    "settings": "picohook's own are lost",
}
"""Command line options of the agent that turn callbacks or the gate off."""

SETTINGS = {"CLAUDE_CODE_SIMPLE": "0", "CLAUDE_CODE_SAFE_MODE": "0"}
"""The same options as variables, which a user's settings or environment can have."""

_COMMAND = """
import json, os, sys, time
asked = os.path.join(sys.argv[1], json.load(sys.stdin)["tool_use_id"].encode().hex())
end = time.monotonic() + float(sys.argv[3])
while not os.path.exists(asked):
    if time.monotonic() > end:
        denial = {"permissionDecision": "deny", "permissionDecisionReason": sys.argv[2]}
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **denial}}))
        break
    time.sleep(0.02)
"""

_UNASKED = "The hooks of this agent were not asked about this call. Make this call again."


class Gate:
    """Denies calls whose callback was not asked.

    `patience` is how many seconds it waits for a callback. The agent calls both at the same time.
    """

    def __init__(self, patience: float = 30) -> None:
        self._patience = patience
        self._resumes = False

    @cached_property
    def _place(self) -> Path:
        """A directory for this gate, which is deleted with it."""
        place = Path(tempfile.mkdtemp(prefix="picohook-"))
        place.chmod(0o711)  # the agent may run as another user
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        return place

    def open(self, identity: str) -> None:
        """Let a call pass: its callback is asked."""
        if self._resumes:
            (self._place / identity.encode().hex()).touch()

    def before(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Returns these options with settings that keep hooks on, and with the gate if the agent may continue a run.

        Raises `PicohookError` for an option that turns hooks off, and for settings that cannot be read.
        """
        for name, why in WITHOUT_HOOKS.items():
            if name in options.extra_args:
                raise PicohookError(f"extra_args: with --{name}, {why}: leave it out")
        settings = _settings_of(options)
        settings["env"] = {**settings.get("env", {}), **SETTINGS}
        servers = options.mcp_servers
        if options.resume or options.continue_conversation or options.extra_args:
            self._resumes = True
            hooks = settings.setdefault("hooks", {})
            hooks["PreToolUse"] = [*hooks.get("PreToolUse", ()), self.hook()]
            settings["disableAllHooks"] = False
            if isinstance(servers, dict):
                servers = {**servers, "picohook": create_sdk_mcp_server("picohook")}
        return replace(options, settings=self._given(settings, options), mcp_servers=servers)

    def hook(self) -> dict[str, Any]:
        """Returns the hook for the agent's settings."""
        python = [sys.executable, "-I", "-S", "-c", _COMMAND, str(self._place), _UNASKED, str(self._patience)]
        command = f"{shlex.join(python)} || exit 2"  # the agent takes only 2 for a denial
        return {"hooks": [{"type": "command", "command": command, "timeout": self._patience + 60}]}

    def _given(self, settings: dict[str, Any], options: ClaudeAgentOptions) -> str:
        """Returns the file of these settings, which the agent gets: other users can see the command line."""
        path = self._place / "settings.json"
        path.touch(0o600)
        path.write_text(json.dumps(settings), encoding="utf-8")
        if options.user:
            shutil.chown(path, options.user)
        return str(path)


def _settings_of(options: ClaudeAgentOptions) -> dict[str, Any]:
    """Returns the settings of these options, which are JSON or the path of a file."""
    text = options.settings or "{}"
    try:
        if not text.lstrip().startswith("{"):
            text = (Path(options.cwd or "") / text.strip()).read_text(encoding="utf-8-sig")
        settings: dict[str, Any] = json.loads(text)
    except (OSError, ValueError) as error:
        raise PicohookError(f"settings: {error}: give a file or a JSON object") from None
    return settings
