"""A throw-away copy of an agent's settings, with a recorder in the place of each hook that is asked before a tool."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

from pydantic import ValidationError

from ...config import syntax
from ...contain.syscalls import CLONE_NEWNS, libc
from ...errors import PicohookError
from ...wire.merge import merge_patch
from ..vendors.dialects import rows, vendor_named
from .agents import Agent, filled
from .alone import recorder

FOREIGN = re.compile(
    r"(?i)(ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|GOOGLE|COPILOT|GITHUB|GH|AWS|AZURE|OTEL|DBUS)(_\w*|CODE)?$|\w*_PROXY$"
)
"""Variables that may name an account, another model or a way out of the machine. The agent gets none of them."""
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "env")
_BIND, _PRIVATE, _DETACH = 1 << 12, 1 << 14 | 1 << 18, 2  # flags of mount and umount2
_RUN = {"command", "commandWindows", "bash", "powershell", "exec", "program", "args", "shell", "url", "headers"}
_RUN |= {"allowedEnvVars", "prompt", "model", "server", "tool", "input"}
"""The keys of a handler that say what it runs. All others stay as they are."""
_PATH = re.compile(r"(\$\{?\w+\}?\"?|~)?(/[^\s\"'|&;()<>]+)")
_CLIENT = {"clientInfo": {"name": "drill", "version": "1"}}
_ASKS = ({"id": 1, "method": "initialize", "params": _CLIENT}, {"method": "initialized"})
_SLOW = 20.0
"""Seconds for Codex to list its hooks."""


class Copy:
    """The copy for one way, in a directory of its own."""

    def __init__(self, agent: Agent, place: Path, project: Path, *, late: bool) -> None:
        self.agent, self.place, self.project, self._late = agent, place, project, late
        self.real, self.home, self._shells = directory_of(agent), place / "home", place / "shells"
        self.hooks: list[dict[str, Any]] = []
        """The hooks that are asked before a tool: place, command, and the command with its programs missing."""
        self.notes: list[str] = []
        self._covered: list[Path] = []

    def write(self, url: str, program: str, environment: Mapping[str, str], *, trusted: bool) -> None:
        """Write the settings for a model at this URL, and cover the project's. Raises `PicohookError` if one cannot be read."""
        found = [path for pattern in self.agent.files for path in sorted(self.real.glob(pattern))]
        first, *_ = self.agent.files
        documents: dict[str, Any] = {first: {}} | {str(path.relative_to(self.real)): self._read(path) for path in found}
        documents = merge_patch(documents, {first: filled({**self.agent.settings, **self.agent.servers}, url=url)})
        if trusted:
            documents = merge_patch(documents, filled(self.agent.trust, project=str(self.project)))
        state = documents[first].get("hooks", {}).get("state", {}) if self.agent.name == "codex" else {}
        if state:
            documents[first]["hooks"]["state"] = {
                key.replace(str(self.real), str(self.home), 1): one for key, one in state.items()
            }
        own = self._known_to_codex(documents, program, environment)
        for name, document in documents.items():
            self.record(document, name)
        for path in [path for one in rows[self.agent.name].project_files for path in sorted(self.project.glob(one))]:
            self._cover(path)
        self._shells.mkdir(exist_ok=True)
        for shell in filter(shutil.which, SHELLS):
            (self._shells / shell).symlink_to(str(shutil.which(shell)))
        (self.place / "hooks.json").write_text(json.dumps(self.hooks), encoding="utf-8")
        recorders = self._known_to_codex(documents, program, environment)
        approved = {key for key, hook in own.items() if hook["trustStatus"] == "trusted"} & recorders.keys()
        for key in approved:
            trust = {"hooks": {"state": {key: {"trusted_hash": recorders[key]["currentHash"]}}}}
            documents = merge_patch(documents, {first: trust})
        self._put(documents)

    def _known_to_codex(
        self, documents: Mapping[str, Any], program: str, environment: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """The hooks that Codex finds in these documents. It trusts each as it is written, so recorders need that anew."""
        self._put(documents)
        return codex_hooks(program, environment, self.project) if self.agent.name == "codex" else {}

    def _cover(self, path: Path) -> None:
        """Put recorders into a hook file of the project, as this process and its children see it. The file does not change."""
        document, covering = self._read(path), self.place / f"covers-{len(self._covered)}{path.suffix}"
        self.record(document, str(path))
        covering.write_text(written(document, covering), encoding="utf-8")
        try:
            libc("unshare", CLONE_NEWNS)
            libc("mount", None, b"/", None, _PRIVATE, None)
            libc("mount", os.fsencode(covering), os.fsencode(path), None, _BIND, None)
        except (OSError, AttributeError) as error:
            why = f"{path} cannot be covered by a copy, since this system gives no mount namespace ({error})"
            raise PicohookError(f"{why}: leave out --here") from None
        self._covered.append(path)

    def uncover(self) -> None:
        """Let the project's hook files be seen again."""
        for path in self._covered:
            libc("umount2", os.fsencode(path), _DETACH)

    def _read(self, path: Path) -> dict[str, Any]:
        """The document of a file, without what a copy does not have. Raises `PicohookError`."""
        document = {key: one for key, one in read(path).items() if key not in self.agent.left_out}
        if isinstance(env := document.get("env"), dict):
            document["env"] = {name: value for name, value in env.items() if not FOREIGN.match(name)}
        return document

    def _put(self, documents: Mapping[str, Any]) -> None:
        for name, document in documents.items():
            path = self.home / (self.real.name if self.agent.above else "") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(document, path), encoding="utf-8")

    def record(self, document: dict[str, Any], file: str) -> None:
        """Put a recorder in the place of each hook of a document that is asked before a tool."""
        for at, handler in handlers(self.agent, document.get("hooks")):
            kept = {key: value for key, value in handler.items() if key not in _RUN}
            if self._late:
                kept = {key: one for key, one in kept.items() if not key.startswith("timeout")} | {**self.agent.short}
            run = command_of(self.agent, handler)
            if not run:
                self.notes.append(f"{file}: {at} runs no command: the drill sees only whether it is asked")
            missing = {"missing": [*map(without_programs, run)], "shells": str(self._shells)}
            self.hooks.append({"at": f"{file}: {at}", "run": run, **missing})
            program = [sys.executable, "-I", "-S", recorder.__file__, str(self.place), str(len(self.hooks) - 1)]
            handler.clear()
            handler |= {**kept, "type": "command", "command": shlex.join(program)}


def command_of(agent: Agent, handler: Mapping[str, Any]) -> list[str]:
    """The command of a handler, as the agent runs it; empty if it runs none.

    The agent starts the recorder in a login shell where it has one, so that the hook needs none.
    """
    try:
        made = vendor_named(agent.name).command_in(handler)
    except ValidationError:
        return []
    return ["-c" if word == "-lc" else word for word in made.get("command", ("/bin/sh", "-c", made.get("run")))]


def read(path: Path) -> dict[str, Any]:
    """The document of a file. Raises `PicohookError`."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(syntax.without_comments(text) or "{}")
        return {**document}
    except (OSError, ValueError, TypeError) as error:
        raise PicohookError(f"{path} cannot be read: {error}: correct it, since the agent reads it, too") from None


def handlers(agent: Agent, hooks: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The handlers that the agent asks before a tool, each with its place."""
    for event, entries in hooks.items() if isinstance(hooks, dict) else ():
        row = vendor_named(agent.name).events.get(event)
        if row is None or row.stage != "before_tool" or not isinstance(entries, list):
            continue
        for index, entry in enumerate(entries):
            group = entry.get("hooks", [entry]) if isinstance(entry, dict) else ()
            for handler in group if isinstance(group, list) else ():
                if isinstance(handler, dict):
                    yield f"{event}[{index}]", handler


def codex_hooks(program: str, env: Mapping[str, str], project: Path) -> dict[str, dict[str, Any]]:
    """The hooks that Codex finds in a project, by their keys, with its trust in them."""
    asked = {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}}
    command = [program, "app-server"]
    with subprocess.Popen(command, env=env, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as server:  # noqa: S603 - the user's
        watch = Timer(_SLOW, server.kill)
        watch.start()
        os.write(server.stdin.fileno(), b"".join(json.dumps(one).encode() + b"\n" for one in (*_ASKS, asked)))  # type: ignore[union-attr] # they are pipes
        told = next((json.loads(line) for line in server.stdout or () if b'"id":2,' in line), dict[str, Any]())
        server.kill()
    watch.cancel()
    return {hook["key"]: hook for one in told.get("result", {}).get("data", ()) for hook in one["hooks"]}


def directory_of(agent: Agent) -> Path:
    """The directory of the agent's own settings."""
    own, moved = Path(vendor_named(agent.name).shim.user_file).parts[1], os.environ.get(agent.home)
    return Path(moved or Path.home(), *((own,) if agent.above or not moved else ()))


def written(document: Any, path: Path) -> str:
    """The document as JSON, or as TOML if the path says so."""
    if path.suffix != ".toml":
        return json.dumps(document)
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in document.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def without_programs(word: str) -> str:
    """A command in which each program that it names by its path is missing, but for shells."""

    def renamed(found: re.Match[str]) -> str:
        known = os.path.basename(found[2]) in SHELLS or not (found[1] or os.path.isfile(found[2]))
        return found[0] if known else f"{found[0]}.missing"

    return _PATH.sub(renamed, word)
