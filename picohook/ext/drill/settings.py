"""The settings of an agent: where they are, which hooks in them are asked before a tool, and how they are written."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

from pydantic import ValidationError

from ...config import syntax
from ...errors import PicohookError
from ..vendors.dialects import vendor_named
from .agents import Agent

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "env")
_PATH = re.compile(r"(\$\{?\w+\}?\"?|~)?(/[^\s\"'|&;()<>]+)")
_CLIENT = {"clientInfo": {"name": "drill", "version": "1"}}
_ASKS = ({"id": 1, "method": "initialize", "params": _CLIENT}, {"method": "initialized"})
_SLOW = 20.0
"""Seconds for Codex to list its hooks."""


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


def handlers(agent: Agent, document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The handlers in a document that the agent asks before a tool, each with its place."""
    hooks = document.get("hooks")
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
