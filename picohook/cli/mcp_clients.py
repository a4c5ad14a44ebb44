"""Puts `picohook mcp` before the servers in the configuration of an MCP client, and removes it again."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from .json_files import JsonFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TABLES = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
"""Where clients keep their servers: Claude, Cursor, Windsurf and Gemini; VS Code's mcp.json; its settings; Zed."""
Entry = dict[str, Any]


def put_before(path: Path, options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Put `picohook mcp` with these options before each server that a command starts.

    Return the names of these servers, and of those that are not guarded because they have a URL.
    """
    remote = []

    def wrap(name: str, entry: Entry) -> Entry | None:
        command, arguments = entry.get("command"), entry.get("args", [])
        if type(command) is not str and type(entry.get("url")) is str:
            remote.append(name)
        if type(command) is not str or type(arguments) is not list or _wrapped(entry) is not None:
            return None  # a remote server, or guarded already
        own = _picohook()
        safe = re.sub(r"[^\w.-]", "-", name)
        wrapped = [*own[1:], "mcp", *options, "--name", safe, "--", command, *arguments]
        return {**entry, "command": own[0], "args": wrapped}

    return _edit(path, wrap), remote


def take_away(path: Path) -> list[str]:
    """Remove `picohook mcp` from all servers. Return their names."""
    return _edit(path, lambda _, entry: _wrapped(entry))


def _picohook() -> list[str]:
    """The command of this program with absolute paths: clients do not start their servers with a shell's PATH."""
    found = shutil.which("picohook")
    return [os.path.abspath(found)] if found else [sys.executable, "-m", "picohook"]


def _wrapped(entry: Entry) -> Entry | None:
    """The entry without `picohook mcp`; None if it does not have it."""
    arguments = entry.get("args")
    if type(arguments) is not list or "mcp" not in arguments[:3] or "--" not in arguments:
        return None
    before, own = arguments[: arguments.index("mcp")], arguments[arguments.index("--") + 1 :]
    program = [entry.get("command"), *before]
    if not own or (Path(str(program[0])).name != "picohook" and program[1:] != ["-m", "picohook"]):
        return None
    return {**entry, "command": own[0], "args": own[1:]}


def _edit(path: Path, change: Callable[[str, Entry], Entry | None]) -> list[str]:
    file = JsonFile.read(path)
    changed = []
    tables = [table for keys in TABLES if type(table := _table(file.document, keys)) is dict]
    if not tables:
        places = ", ".join(".".join(keys) for keys in TABLES)
        raise PicohookError(f"{file.path} has no servers of MCP (under {places})")
    for table in tables:
        for name, entry in table.items():
            new = change(name, entry) if type(entry) is dict else None
            if new is not None:
                table[name] = new
                changed.append(name)
    if changed:
        file.write(file.document)
    return changed


def _table(document: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        document = document.get(key) if type(document) is dict else None
    return document
