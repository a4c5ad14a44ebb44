"""The four agents as their vendors publish them, each with a home of its own and a model of this machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picohook.ext.drill.agents import AGENTS, filled, run
from picohook.ext.drill.settings import written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from picohook.ext.drill.agents import Agent, Call

HERE = Path(__file__).parent
BIN = HERE / "node_modules" / ".bin"
PACKAGES = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
"""The packages, each with the version that vendor mode follows."""
STALLED = 20.0
"""Seconds without progress after which a program is killed."""


@dataclass(frozen=True)
class Program:
    """One of the agents."""

    name: str
    package: str
    hook_file: str
    """The user's hook file, from the home directory."""
    command: str
    """The shell's argument with the command."""
    shown: str
    """What hooks call that argument."""
    matched: str
    """What matchers call the shell."""
    write: str
    """The tool that writes a file, as matchers call it."""
    events: tuple[str, ...]
    """Its events before a tool: one for each spelling."""
    prompt_event: str
    """Its event for a prompt."""
    whole: Mapping[str, Any] | None = None
    """The other keys of the hook file."""
    is_flat: bool = False
    """Whether a handler stands in the list of an event, without a group around it."""
    trusts: tuple[str, ...] = ()
    """The option that lets it run hooks which nobody has trusted."""

    @property
    def agent(self) -> Agent:
        """How it is started, and how its tools are called."""
        return AGENTS[self.name]

    @property
    def version(self) -> str:
        """The pinned version."""
        return str(PACKAGES[self.package])

    @property
    def dialect(self) -> Any:
        """The name of its dialect."""
        return self.name

    @property
    def shell(self) -> str:
        """The tool that runs a command."""
        return str(self.agent.shell[0])

    @property
    def more(self) -> dict[str, Any]:
        """The shell's other arguments."""
        return {name: value for name, value in self.agent.shell[1].items() if name != self.command}

    def at(self, event: str) -> Program:
        """The program with the names that its tools have for matchers at an event."""
        return replace(self, matched="Bash", write="Write") if event == "PreToolUse" and self.is_flat else self

    @property
    def any_prompt(self) -> str | None:
        """A matcher of a handler that is asked about prompts. It is no pattern, and Claude Code and Codex ask its handler."""
        return "[" if self.name in {"claude", "codex"} else None

    def group(self, handler: Mapping[str, Any], matcher: str | None = None) -> list[Any]:
        """The list of an event with one handler, for the calls that the matcher says."""
        own = {} if matcher is None else {"matcher": matcher}
        full = {"type": "command", **handler}
        return [{**full, **own}] if self.is_flat else [{**own, "hooks": [full]}]

    def call(self, identity: str, command: str) -> Call:
        """A call of the shell."""
        return self.agent.call(identity, "shell", command=command)

    def call_of_write(self, identity: str, path: str) -> Call:
        """A call that writes a file."""
        return self.agent.call(identity, "write", path=path)

    def prepare(self, home: Path, url: str, hooks: Mapping[str, Any]) -> None:
        """Write the files of its home: hooks, and the model at this URL."""
        settings = home / f".{self.name}" / self.agent.files[0]
        files = {settings: filled(dict(self.agent.settings), url=url)}
        own = home / self.hook_file
        files[own] = {**files.get(own, {}), **(self.whole or {}), "hooks": hooks}
        for path, document in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(document, path), encoding="utf-8")

    def run(self, prompt: str, home: Path, project: Path, url: str, progress: Callable[[], Any] = int) -> str:
        """Run it in a project, without a terminal. Returns what it wrote.

        Kills it once `progress` has returned the same value for a while.
        """
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "SHELL": "/bin/sh",
            "XDG_RUNTIME_DIR": str(home),
            "TMPDIR": str(home),
            "NO_PROXY": "127.0.0.1",
            **filled(self.agent.environment, url=url),
        }
        command = [str(BIN / self.name), *self.agent.start, *self.trusts, *self.agent.options, prompt]
        return run(command, project, environment, home / "output", progress=progress, patience=STALLED)


PROGRAMS = (
    Program(
        "claude",
        "@anthropic-ai/claude-code",
        ".claude/settings.json",
        "command",
        "command",
        "Bash",
        "Write",
        ("PreToolUse",),
        "UserPromptSubmit",
    ),
    Program(
        "codex",
        "@openai/codex",
        ".codex/hooks.json",
        "cmd",
        "command",
        "Bash",
        "apply_patch",
        ("PreToolUse",),
        "UserPromptSubmit",
        trusts=("--dangerously-bypass-hook-trust",),
    ),
    Program(
        "gemini",
        "@google/gemini-cli",
        ".gemini/settings.json",
        "command",
        "command",
        "run_shell_command",
        "write_file",
        ("BeforeTool",),
        "BeforeAgent",
        trusts=("--skip-trust",),
    ),
    Program(
        "copilot",
        "@github/copilot",
        ".copilot/hooks/hooks.json",
        "command",
        "command",
        "bash",
        "create",
        ("preToolUse", "PreToolUse"),
        "userPromptSubmitted",
        whole={"version": 1},
        is_flat=True,
    ),
)
