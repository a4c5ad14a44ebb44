"""Puts `picohook mcp` before the servers in the configuration of an MCP client, and takes it away again.

The configuration is JSON, with or without comments. An edit replaces the text of single servers. All other bytes of the file
stay, and the version before is kept beside it.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...cli.settings_files import JsonText, Member, SettingsFile, decoded, understood
from ...errors import PicohookError

BACKUP = ".before-picohook-mcp"
TABLES = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
    ("projects", "*", "mcpServers"),
)
"""The keys of the servers in JSON: of most clients; VS Code's mcp.json and settings; Zed; Claude Code, by project."""
Entry = dict[str, Any]
Place = tuple[str, ...]
New = tuple[Entry, str]
"""An entry, and its text."""
URLS = ("url", "httpUrl", "serverUrl")
"""The keys under which clients have the URL of a server."""


class Changes(NamedTuple):
    """The changes to the servers of a client."""

    changed: list[str]
    left: dict[str, str]
    """The servers that are not guarded, and why."""


class ClientFile:
    """The configuration file of a client, and the servers in it."""

    def __init__(self, file: SettingsFile, text: str) -> None:
        """Take a text of a file. Raises `ValueError` if it cannot be read, and `PicohookError` if it has no servers."""
        self.file = file
        self.text = text
        self._json = JsonText(text)
        self.servers = tuple(self._servers())
        if len({one.place for one in self.servers}) < len(self.servers):
            raise ValueError("it has two servers of one name")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises `PicohookError`."""
        file = SettingsFile(path, BACKUP)
        if file.data is None:
            raise PicohookError(f"{path} cannot be read: there is no such file")
        if path.suffix == ".toml":
            way = "codex mcp add NAME -- picohook mcp --name NAME -- COMMAND"
            raise PicohookError(f"{path} is not edited, because it is not JSON: Codex does this itself ({way})")
        with understood(path, "JSON"):
            return cls(file, file.data.decode())

    def before(self) -> dict[Place, New]:
        """The servers of the version before, by place: their entries and texts. Empty if it cannot be read."""
        try:
            was = ClientFile(self.file, (self.file.before or b"").decode())
        except (ValueError, RecursionError, PicohookError):
            return {}
        return {one.place: (one.value, was.text[one.start : one.end]) for one in was.servers}

    def text_of(self, server: Member, entry: Entry) -> str:
        """The text of an entry in place of this server's."""
        with understood(f"{self.file.path}: {server.name}", "JSON"):
            decoded(self._json.plain[server.start : server.end])
            return self._json.value_at(server.start, entry)

    def with_texts(self, new: Mapping[Place, New]) -> str:
        """The text of the file with these texts of servers, by their places."""
        text = self.text
        for server in sorted(self.servers, key=lambda one: one.start, reverse=True):
            if server.place in new:
                text = text[: server.start] + new[server.place][1] + text[server.end :]
        return text

    def replace(self, new: Mapping[Place, New], *, keep: str | None = None) -> None:
        """Replace servers, by their places, with these entries and their texts. Keep a version before, if one is given.

        Raises `PicohookError` if the file cannot be written.
        """
        text = self.with_texts(new)
        before = self.file.before if keep is None else keep.encode()
        same = keep is None and before == text.encode()  # the backup has nothing that the file does not have
        self.file.write(text.encode(), None if same else before)

    def _servers(self) -> Iterator[Member]:
        tables = [one for *above, name in TABLES for one in self._json.members(above) if one.name == name]
        tables = [table for table in tables if type(table.value) is dict]
        if not tables:
            places = ", ".join(".".join(keys) for keys in TABLES)
            raise PicohookError(f"{self.file.path} has no servers of MCP (under {places})")
        for table in tables:
            yield from (one for one in self._json.members((), table.start, table.place) if type(one.value) is dict)


def put_before(path: Path, options: Sequence[str]) -> Changes:
    """Put `picohook mcp` with these options before each server. Raises `PicohookError`."""
    file = ClientFile.read(path)
    new: dict[Place, New] = {}
    left = {}
    own = _picohook()
    for server in file.servers:
        entry = server.value
        if _is_guarded(entry):
            continue
        if type(entry.get("command")) is str and type(entry.get("args", [])) is list:
            before = [*own[1:], "mcp", *options, "--name", re.sub(r"[^\w.-]", "-", server.name), "--"]
            entry = {**entry, "command": own[0], "args": [*before, entry["command"], *entry.get("args", [])]}
            new[server.place] = entry, file.text_of(server, entry)
        elif any(key in entry for key in URLS):
            left[server.name] = "it has a URL: write the command `picohook mcp --url URL` in its place"
        else:
            left[server.name] = "picohook does not see its command"
    if new:
        file.replace(new, keep=file.text if file.file.before is None else file.with_texts(_undone(file)))
    return Changes([place[-1] for place in new], left)


def take_away(path: Path) -> list[str]:
    """Take `picohook mcp` away from all servers. Returns their names. Raises `PicohookError`."""
    file = ClientFile.read(path)
    new = _undone(file)
    if new:
        file.replace(new)
    return [place[-1] for place in new]


def _undone(file: ClientFile) -> dict[Place, New]:
    """The servers without `picohook mcp`, each with the text that it had unless it was changed since.

    Those that were guarded before `put_before` are not among them.
    """
    before, undone = file.before(), {}
    for server in file.servers:
        was, text = before.get(server.place, ({}, ""))
        if not _is_guarded(server.value) or _is_guarded(was) or "--" not in server.value["args"][:-1]:
            continue
        command, *arguments = server.value["args"][server.value["args"].index("--") + 1 :]
        own = {**server.value, "command": command, "args": arguments}
        same = {"args": [], **was} == own
        undone[server.place] = (was, text) if same else (own, file.text_of(server, own))
    return undone


def _picohook() -> list[str]:
    """The command of this program with absolute paths: clients do not start their servers with a shell's PATH.

    They start them in the project, whose modules do not take the place of picohook's (`-P`).
    """
    found = shutil.which("picohook")
    return [os.path.abspath(found)] if found else [sys.executable, "-P", "-m", "picohook"]


def _is_guarded(entry: Entry) -> bool:
    """Whether a server has `picohook mcp` before it."""
    arguments = entry.get("args")
    if type(arguments) is not list or "mcp" not in arguments[:4]:
        return False
    program = [entry.get("command"), *arguments[: arguments.index("mcp")]]
    return Path(str(program[0])).name == "picohook" or program[-2:] == ["-m", "picohook"]
