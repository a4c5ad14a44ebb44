"""The servers in the configuration file of an MCP client: JSON, with or without comments, or TOML.

An edit replaces the text of single servers. All other bytes of the file stay, and the version before is kept beside it.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from ...cli.settings_files import JsonText, Member, SettingsFile, decoded, newline_of, understood
from ...errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import NoReturn, Self

BACKUP = ".before-picohook-mcp"
TABLES = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("context_servers",),
    ("projects", "*", "mcpServers"),
)
"""The keys of the servers in JSON: of most clients; VS Code's mcp.json and settings; Zed; Claude Code, by project."""
IN_TOML = "mcp_servers"
"""The table in which Codex has them in TOML."""
Entry = dict[str, Any]
Place = tuple[str, ...]
New = tuple[Entry, str]
"""An entry, and its text."""

_HEADER = re.compile(r"^[ \t]*\[([^\[\]\n]+)\][ \t]*(?:#.*)?$", re.MULTILINE)
_END_OF_TABLE = re.compile(r"(?:\s*\n[ \t]*(?:#[^\n]*)?)*\s*\Z")
"""Blank lines and comments at the end of a table. They belong to what follows."""


class ClientFile:
    """The configuration file of a client, and the servers in it."""

    def __init__(self, file: SettingsFile, text: str) -> None:
        """Take a text of a file. Raises `ValueError` if it cannot be read, and `PicohookError` if it has no servers."""
        self.file = file
        self.text = text
        self.toml = file.path.suffix == ".toml"
        self.unreachable: tuple[str, ...] = ()
        """The names of servers whose text cannot be told from the rest."""
        self._json = None if self.toml else JsonText(text)
        self.servers = tuple(self._of_json(self._json) if self._json else self._of_toml())
        if len({one.place for one in self.servers}) < len(self.servers):
            raise ValueError("it has two servers of one name")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises `PicohookError`."""
        file = SettingsFile(path, BACKUP)
        if file.data is None:
            raise PicohookError(f"{path} cannot be read: there is no such file")
        with understood(path, "TOML" if path.suffix == ".toml" else "JSON"):
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
        if self._json is None:
            lines = [f"[{IN_TOML}.{_key(server.name)}]", *(f"{_key(key)} = {_toml(one)}" for key, one in entry.items())]
            return newline_of(self.text).join(lines)
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

        Raises `PicohookError` if the file cannot be written, or would have other entries than these.
        """
        text = self.with_texts(new)
        wanted = {one.place: new[one.place][0] if one.place in new else one.value for one in self.servers}
        try:
            made = {one.place: one.value for one in ClientFile(self.file, text).servers}
        except ValueError:
            made = {}
        if made != wanted:
            raise PicohookError(f"{self.file.path} cannot be changed: write each server in one part")
        before = self.file.before if keep is None else keep.encode()
        same = keep is None and before == text.encode()  # the backup has nothing that the file does not have
        self.file.write(text.encode(), None if same else before)

    def _of_json(self, text: JsonText) -> Iterator[Member]:
        tables = [one for *above, name in TABLES for one in text.members(above) if one.name == name]
        tables = [table for table in tables if type(table.value) is dict]
        if not tables:
            self._fail(".".join(keys) for keys in TABLES)
        for table in tables:
            yield from (one for one in text.members((), table.start, table.place) if type(one.value) is dict)

    def _of_toml(self) -> Iterator[Member]:
        table = tomllib.loads(self.text).get(IN_TOML)
        if type(table) is not dict:
            self._fail([IN_TOML])
        parts: list[tuple[list[str], int, int]] = []
        headers = [*_HEADER.finditer(self.text)]
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            keys = _keys(header[1])
            end = following.start() if following else len(self.text)
            if parts and keys[: len(parts[-1][0])] == parts[-1][0]:
                parts[-1] = parts[-1][0], parts[-1][1], end  # a table inside of the one before
            else:
                parts.append((keys, header.start(), end))
        found = {}
        for keys, start, end in parts:
            if len(keys) == len((IN_TOML, "name")) and keys[0] == IN_TOML and type(table.get(keys[1])) is dict:
                left = _END_OF_TABLE.search(self.text, start, end)
                found[keys[1]] = Member((IN_TOML, keys[1]), table[keys[1]], start, left.start() if left else end)
        self.unreachable = tuple(name for name in table if name not in found)
        yield from found.values()

    def _fail(self, places: Iterable[str]) -> NoReturn:
        raise PicohookError(f"{self.file.path} has no servers of MCP (under {', '.join(places)})")


def _keys(header: str) -> list[str]:
    """The keys in the header of a table in TOML."""
    keys, table = [], tomllib.loads(f"[{header}]")
    while table:
        (key,) = table
        keys.append(key)
        table = table[key]
    return keys


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _toml(value: Any) -> str:
    """A value in TOML, on one line."""
    if type(value) is dict:
        return "{ " + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if type(value) is list:
        return "[" + ", ".join(map(_toml, value)) + "]"
    if type(value) is str:
        return json.dumps(value, ensure_ascii=False)
    return (
        json.dumps(value) if type(value) in {bool, int} else str(value) if type(value) is float else value.isoformat()
    )
