"""The servers in the configuration file of an MCP client: JSON, with or without comments, or TOML.

An edit replaces the text of single servers. All other bytes of the file stay, and the version before is kept beside it.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cli.json_files import decoded, encoded
from ...errors import PicohookError
from ...wire import written_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/|\A\ufeff", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_SPACE = re.compile(r"[\s,:]*")
_HEADER = re.compile(r"^[ \t]*\[([^\[\]\n]+)\][ \t]*(?:#.*)?$", re.MULTILINE)
_END_OF_TABLE = re.compile(r"(?:\s*\n[ \t]*(?:#[^\n]*)?)*\s*\Z")
"""Blank lines and comments at the end of a table. They belong to what follows."""


class Server(NamedTuple):
    """A server in a file."""

    place: tuple[str, ...]
    """The keys that lead to it. The last one is its name."""
    entry: Entry
    start: int
    """The place where its text begins in the file."""
    end: int

    @property
    def name(self) -> str:
        """The name that the client has for it."""
        return self.place[-1]


class ClientFile:
    """The configuration file of a client, and the servers in it."""

    def __init__(self, path: Path, text: str, *, toml: bool) -> None:
        """Take the text of a file. Raises `ValueError` if it cannot be read, and `PicohookError` if it has no servers."""
        self.path = path
        self.text = text
        self.toml = toml
        self.unreachable: tuple[str, ...] = ()
        """The names of servers whose text cannot be told from the rest."""
        self.servers = tuple(self._of_toml() if toml else self._of_json())
        if len({one.place for one in self.servers}) < len(self.servers):
            raise ValueError("it has two servers of one name")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises `PicohookError`."""
        toml = path.suffix == ".toml"
        try:
            with written_files.place(path) as place:
                data = place.read()
            if data is None:
                raise PicohookError(f"{path} cannot be read: there is no such file")
            return cls(path, data.decode(), toml=toml)
        except OSError as error:
            raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
        except RecursionError:
            raise PicohookError(f"{path} is nested too deeply") from None
        except ValueError as error:
            raise PicohookError(f"{path} is not {'TOML' if toml else 'JSON'}: {error}") from None

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def before(self) -> dict[tuple[str, ...], tuple[Entry, str]]:
        """The servers of the version before, by place: their entries and texts. Empty if it cannot be read."""
        try:
            with written_files.place(self.path) as place:
                was = ClientFile(self.path, (place.beside(BACKUP).read() or b"").decode(), toml=self.toml)
        except (OSError, ValueError, RecursionError, PicohookError):
            return {}
        return {one.place: (one.entry, was.text[one.start : one.end]) for one in was.servers}

    def text_of(self, server: Server, entry: Entry) -> str:
        """The text of an entry in place of this server's."""
        if self.toml:
            lines = [f"[{IN_TOML}.{_key(server.name)}]", *(f"{_key(key)} = {_toml(one)}" for key, one in entry.items())]
            return self._newline.join(lines)
        first = self.text.rfind("\n", 0, server.start) + 1
        indent = re.match(r"[ \t]*", self.text[first:])
        assert indent is not None
        unit = re.search(r"^([ \t]+)[\"}]", self.text, re.MULTILINE)
        try:
            decoded(self._plain[server.start : server.end])
        except ValueError as error:
            raise PicohookError(f"{self.path}: {server.name} cannot be edited: {error}") from None
        text = encoded(entry, unit[1] if unit else 2)
        return text.replace("\n", self._newline + indent[0])

    def with_texts(self, new: Mapping[tuple[str, ...], tuple[Entry, str]]) -> str:
        """The text of the file with these texts of servers, by their places."""
        text = self.text
        for server in sorted(self.servers, key=lambda one: one.start, reverse=True):
            if server.place in new:
                text = text[: server.start] + new[server.place][1] + text[server.end :]
        return text

    def replace(self, new: Mapping[tuple[str, ...], tuple[Entry, str]], *, keep: str | None = None) -> None:
        """Replace servers, by their places, with these entries and their texts. Keep a version before, if one is given.

        Raises `PicohookError` if the file cannot be written, or would have other entries than these.
        """
        text = self.with_texts(new)
        wanted = {one.place: new[one.place][0] if one.place in new else one.entry for one in self.servers}
        try:
            made = {one.place: one.entry for one in ClientFile(self.path, text, toml=self.toml).servers}
        except ValueError:
            made = {}
        if made != wanted:
            raise PicohookError(f"{self.path} cannot be changed: write each server in one part")
        try:
            with written_files.place(self.path) as place:
                if place.read() != self.text.encode():
                    raise PicohookError(f"{self.path} changed after it was read: try again")
                backup = place.beside(BACKUP)
                if keep is not None:
                    backup.read()
                    backup.replace(keep.encode(), mode=place.mode)
                place.replace(text.encode())
                if keep is None and backup.read() == text.encode():
                    backup.remove()  # it has nothing that the file does not have
        except OSError as error:
            raise PicohookError(f"{self.path} cannot be written: {error.strerror}") from None

    def _of_json(self) -> Iterator[Server]:
        plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, self.text))
        self._plain = plain
        document = json.loads(plain)
        places = [keys for keys in TABLES if _has(document, keys)]
        if not places:
            self._fail(".".join(keys) for keys in TABLES)
        start = len(plain) - len(plain.lstrip())
        for keys in places:
            for place, entry, begin, end in _find(plain, start, keys):
                if type(entry) is dict:
                    yield Server(place, entry, begin, end)

    def _of_toml(self) -> Iterator[Server]:
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
                found[keys[1]] = Server((IN_TOML, keys[1]), table[keys[1]], start, left.start() if left else end)
        self.unreachable = tuple(name for name in table if name not in found)
        yield from found.values()

    def _fail(self, places: Iterable[str]) -> NoReturn:
        raise PicohookError(f"{self.path} has no servers of MCP (under {', '.join(places)})")


def _blank(found: re.Match[str]) -> str:
    """Returns spaces in place of a comment or a comma, so that all other text keeps its place."""
    return found[0] if found[1] else re.sub(r"[^\n]", " ", found[0])


def _has(document: Any, keys: Sequence[str]) -> bool:
    if type(document) is not dict:
        return False
    if not keys:
        return True
    inside = document.values() if keys[0] == "*" else [document.get(keys[0])]
    return any(_has(one, keys[1:]) for one in inside)


def _find(plain: str, at: int, keys: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any, int, int]]:
    """The members of the objects to which these keys lead from the object that begins here: their keys, values and places."""
    if plain[at] != "{":
        return
    for key, value, start, end in _members(plain, at):
        if not keys:
            yield (key,), value, start, end
        elif keys[0] in {key, "*"}:
            for inside, *rest in _find(plain, start, keys[1:]):
                yield (key, *inside), *rest


def _members(plain: str, at: int) -> Iterator[tuple[str, Any, int, int]]:
    decoder = json.JSONDecoder()
    at = _skip(plain, at + 1)
    while plain[at] != "}":
        key, at = decoder.raw_decode(plain, at)
        start = _skip(plain, at)
        value, at = decoder.raw_decode(plain, start)
        yield key, value, start, at
        at = _skip(plain, at)


def _skip(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    assert found is not None
    return found.end()


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
