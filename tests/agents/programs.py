"""The four agents as their vendors publish them, each with a home of its own and a model of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent
PACKAGES = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
"""The packages, each with the version that vendor mode follows."""
STALLED = 20.0
"""Seconds without progress after which a program waits for something that does not come."""
CODEX = """\
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""


@dataclass(frozen=True)
class Program:
    """One of the agents."""

    name: str
    package: str
    hook_file: str
    """The user's hook file, from the home directory."""
    arguments: tuple[str, ...]
    """What comes before the prompt on its command line."""
    environment: Callable[[str], Mapping[str, str]]
    """The variables that name the model at a URL."""
    shell: str
    """The tool that runs a command."""
    command: str
    """The shell's argument with the command."""
    shown: str
    """What hooks call that argument."""
    more: Mapping[str, Any]
    """The shell's other arguments."""
    matched: str
    """What matchers call the shell."""
    write: str
    """The tool that writes a file, as matchers call it."""
    writes: Callable[[str], tuple[str, dict[str, Any]]]
    """The name and the arguments of a call that writes a file with this path."""
    events: tuple[str, ...]
    """Its events before a tool: one for each spelling."""
    prompt_event: str
    """Its event for a prompt."""
    files: Callable[[str], Mapping[str, str]] = lambda _: {}
    """More files of the home directory, for a model at a URL."""
    whole: Mapping[str, Any] | None = None
    """The other keys of the hook file."""
    is_flat: bool = False
    """Whether a handler stands in the list of an event, without a group around it."""

    @property
    def version(self) -> str:
        """The pinned version."""
        return str(PACKAGES[self.package])

    @property
    def dialect(self) -> Any:
        """The name of its dialect."""
        return self.name

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

    @property
    def path(self) -> Path:
        """The program, if it is installed."""
        return HERE / "node_modules" / ".bin" / self.name

    def call(self, identity: str, command: str) -> tuple[str, str, dict[str, Any]]:
        """A call of the shell."""
        return identity, self.shell, {self.command: command, **self.more}

    def call_of_write(self, identity: str, path: str) -> tuple[str, str, dict[str, Any]]:
        """A call that writes a file."""
        return identity, *self.writes(path)

    def prepare(self, home: Path, url: str, hooks: Mapping[str, Any]) -> None:
        """Write the files of its home: hooks, and the model at this URL."""
        files = {self.hook_file: json.dumps({**(self.whole or {}), "hooks": hooks}), **self.files(url)}
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text, encoding="utf-8")

    def run(self, prompt: str, home: Path, project: Path, url: str, progress: Callable[[], Any] = int) -> str:
        """Run it in a project, without a terminal. Returns what it wrote.

        Kills it once `progress` has returned the same value for `STALLED` seconds.
        """
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "SHELL": "/bin/sh",
            "XDG_RUNTIME_DIR": str(home),
            "TMPDIR": str(home),
            "NO_PROXY": "127.0.0.1",
            **self.environment(url),
        }
        output = home / "output"
        with output.open("wb") as file:
            running = subprocess.Popen(
                [str(self.path), *self.arguments, prompt],
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            seen, since = progress(), time.monotonic()
            while True:
                try:
                    running.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    now = progress()
                    if now != seen:
                        seen, since = now, time.monotonic()
                    if time.monotonic() - since > STALLED:
                        os.killpg(running.pid, signal.SIGKILL)
        return output.read_text(encoding="utf-8", errors="replace")


PROGRAMS = (
    Program(
        "claude",
        "@anthropic-ai/claude-code",
        ".claude/settings.json",
        ("--model", "scripted", "--allowedTools=Bash,Write,Read", "-p"),
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        "Bash",
        "command",
        "command",
        {"description": "try"},
        "Bash",
        "Write",
        lambda path: ("Write", {"file_path": path, "content": "x"}),
        ("PreToolUse",),
        "UserPromptSubmit",
    ),
    Program(
        "codex",
        "@openai/codex",
        ".codex/hooks.json",
        (
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--dangerously-bypass-hook-trust",
        ),
        lambda _: {},
        "exec_command",
        "cmd",
        "command",
        {},
        "Bash",
        "apply_patch",
        lambda path: (
            "exec_command",
            {"cmd": f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\nEOF\n"},
        ),
        ("PreToolUse",),
        "UserPromptSubmit",
        files=lambda url: {".codex/config.toml": CODEX.format(url=url)},
    ),
    Program(
        "gemini",
        "@google/gemini-cli",
        ".gemini/settings.json",
        ("--allowed-tools=run_shell_command,write_file", "--skip-trust", "-m", "gemini-2.5-pro", "-p"),
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
        "run_shell_command",
        "command",
        "command",
        {"description": "try"},
        "run_shell_command",
        "write_file",
        lambda path: ("write_file", {"file_path": path, "content": "x"}),
        ("BeforeTool",),
        "BeforeAgent",
        whole={"privacy": {"usageStatisticsEnabled": False}, "security": {"auth": {"selectedType": "gemini-api-key"}}},
    ),
    Program(
        "copilot",
        "@github/copilot",
        ".copilot/hooks/hooks.json",
        ("--allow-all-tools", "--disable-builtin-mcps", "-p"),
        lambda url: {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_BASE_URL": url,
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "scripted",
        },
        "bash",
        "command",
        "command",
        {"description": "try"},
        "bash",
        "create",
        lambda path: ("create", {"path": path, "file_text": "x"}),
        ("preToolUse", "PreToolUse"),
        "userPromptSubmitted",
        whole={"version": 1},
        is_flat=True,
    ),
)
