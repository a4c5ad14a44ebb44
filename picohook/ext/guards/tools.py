"""Tools of agents: shells, file tools, the network, MCP servers, by the names in `tools.toml`."""

from __future__ import annotations

import functools
import json
import os.path
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import code
from .effects import CallFiles, Effects
from .programs import without_strings
from .reader import Scope
from .reading import Command
from .words import UNKNOWN, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .programs import Programs
    from .reader import Reader

MOST_STRINGS = 400
"""Strings of a call that are looked at for paths and URLs."""
_SERVER = re.compile(r"mcp__.*|mcp_.*|MCP:.*", re.IGNORECASE)
_OF_SERVER = re.compile(r"mcp__((?:(?!__).)+)__(?!_)(?:(?!__).)+")
"""A tool of an MCP server. A name that may be read in two ways is of none."""
_URL = re.compile(r"(?:https?|wss?|ftp|file)://[^\s\"'<>]+", re.IGNORECASE)
_PATCH = re.compile(
    r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$|^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE
)
_DELETES = re.compile(r"(?:^|_|-)(?:delete|remove|rm|unlink|drop|destroy|purge)", re.IGNORECASE)
_WRITES = re.compile(
    r"(?:^|_|-)(?:write|edit|create|save|put|update|append|move|rename|copy|insert|replace|modify)", re.IGNORECASE
)
_PATH_NAME = re.compile(r"(?:path|file)s?$|(?:filename|source|destination|uri|dir|directory)$", re.IGNORECASE)
_OPENS = re.compile(
    r"\s*(?:exec\s+)?(?:\S*/)?(?:sh|bash|zsh|dash|fish|ksh|python3?|ipython|node|irb|psql|mysql|ssh|screen|tmux|sqlite3"
    r"|perl -de ?\d)(?:\s+-\w*[il]\w*|\s+[\w.@-]+)?\s*"
)
_OTHER_SHELLS = re.compile(r"(?:.*/)?(?:fish|nu|(?:pwsh|powershell|cmd)(?:\.exe)?)")
_SAME_ELSEWHERE = re.compile(
    r"\s*(?:ls|dir|pwd|echo [\w\s]*|cat [\w./-]+|git (?:status|log|diff)[\w\s./-]*|Get-\w+(?: [\w./-]+)?)\s*"
)
"""Lines that mean the same in other shells."""
_OPEN_QUOTE = re.compile(r"""(?:[^'"\\`$#\n]++|'[^'\n]*+'|"[^"\\`$\n]*+")*+(?:(')[^'\n]*|(")[^"\\`$\n]*)""")
"""A line with an open quote. No shell runs it, so it is read as if it was closed: then more of it is certain."""
_KEYS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\{?<?(?:enter|ctrl-c|up|down|left|right|esc|tab)>?\}?")
_ESCALATES = (
    ("dangerouslyDisableSandbox", True),
    ("sandbox_permissions", "require_escalated"),
    ("with_escalated_permissions", True),
)


@functools.cache
def _table() -> dict[str, Any]:
    table = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))
    return table | {"names": {name: kind for kind, row in table["kinds"].items() for name in row["names"]}}


def server_of(name: str) -> str | None:
    """The MCP server that has the named tool; None if that is not certain."""
    found = _OF_SERVER.fullmatch(name)
    return found[1] if found else None


def read(
    name: str, arguments: Mapping[str, Any], reader: Reader, programs: Programs, scope: Scope, *, told: str = ""
) -> None:
    """Read a call of the named tool into the reader's reading. `told`: what kind its server says that it is, if trusted."""
    kind = "" if _SERVER.fullmatch(name) else _table()["names"].get(name.lower(), "")
    if base := _first(arguments, _table()["directories"]):
        scope.cwds = (os.path.normpath(os.path.join(scope.cwds[0], os.path.expanduser(base))),)
    tool = _Tool(kind, arguments, programs, reader, Command([Word(name)], name, scope.cwds))
    if kind not in _table()["kinds"]:
        tool.generic(told)
        return
    names = _table()["kinds"][kind].get("field", ())
    found = [one for one in names if arguments.get(one) not in (None, "")]
    values = [arguments[one] for one in found]
    patch = next((one for one in arguments.values() if isinstance(one, str) and "*** Begin Patch" in one), "")
    if kind == "edit" and not found and patch:
        tool.patch([patch])
    elif names and not found:
        if kind not in {"typing", "read", "grep"} and not any(one in arguments for one in names):
            reader.reading.doubt(f"The call of {name} lacks its `{names[0]}`.")
    elif names and kind not in _table()["lists"] and not any(isinstance(value, str) for value in values):
        reader.reading.doubt(f"The `{found[0]}` of {name} is not a text.")
    elif kind in _READS:
        _READS[kind](tool, values)


def _first(arguments: Mapping[str, Any], names: list[str], default: str = "") -> str:
    """The first text of these arguments."""
    return next((arguments[one] for one in names if isinstance(arguments.get(one), str)), default)


class _Tool(Effects):
    """A call of a tool, of which `_READS` names the method by the tool's kind."""

    def __init__(
        self, kind: str, arguments: Mapping[str, Any], files: CallFiles, reader: Reader, command: Command
    ) -> None:
        super().__init__(files, reader, command, Scope(command.cwds))
        self.tool, self.kind, self.arguments = command.name, kind, arguments

    def act(self, kind: str, word: Word | str, detail: str = "") -> None:
        """Note an act on a file, whose path may begin with a tilde."""
        path = word if isinstance(word, str) else word.text
        path = re.sub(r"^(?:~(?=/|$)|\$HOME)", lambda _: self.reader.home, path.replace("\0", "\ufffd"))
        super().act(kind, Word(os.path.expanduser(path), "*" in path), detail)

    def on_shell(self, values: list[Any]) -> None:
        """A shell text, a list of words, or a patch."""
        if any(self.arguments.get(name) == value for name, value in _ESCALATES):
            self.bare("escalate")
        for value in values:
            if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                if value[0] in {"apply_patch", "applypatch"}:
                    self.patch(value[1:])
                else:
                    self.reader.execute([*map(Word, value)], self.scope)
            elif not isinstance(value, str):
                self.reading.doubt(f"The command of {self.tool} is not a text.")
            elif value.lstrip().startswith("*** Begin Patch"):
                self.patch([value])
            elif _OTHER_SHELLS.fullmatch(self.tool.lower()) or _OTHER_SHELLS.fullmatch(
                str(self.arguments.get("shell"))
            ):
                if not _SAME_ELSEWHERE.fullmatch(value):
                    self.reading.doubt("Guards do not read this shell.")
            else:
                open_quote = _OPEN_QUOTE.fullmatch(value)
                if self.arguments.get("tty") is True and _OPENS.fullmatch(value):
                    self.bare("open-shell", value)
                self.reader.read(value + (open_quote[1] or open_quote[2] if open_quote else ""), self.scope)

    def typed(self, values: list[Any]) -> None:
        """Text for an open shell."""
        for text in _strings(values):
            plain = _KEYS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
            self.reader.read(plain, self.scope)
            if plain == text and not plain.endswith("\n") and len(plain.strip()) > 1:
                self.reading.doubt("This is half a line for an open shell.")

    def python(self, values: list[Any]) -> None:
        """Python code."""
        command = Command([Word("python3")], "python3", self.scope.cwds)
        for text in _strings(values):
            code.note(Effects(self.files, self.reader, command, self.scope), "python", text)

    def on_files(self, values: list[Any]) -> None:
        """Files are read, deleted or moved."""
        kind = "read" if self.kind == "grep" else self.kind
        if kind == "delete" and ("dir" in self.tool.lower() or self.arguments.get("recursive") is True):
            kind = "delete-tree"
        for text in _strings(values):
            self.act(kind, text)
        for target in _strings([self.arguments.get(one) for one in _table()["targets"]]) if kind == "move" else ():
            self.act("write", target, "move")

    def write(self, values: list[Any]) -> None:
        """A file is written or edited."""
        if self.arguments.get("command") == "view":
            self.act("read", values[0])
            return
        edits = self.kind != "write"
        text = UNKNOWN if edits else _first(self.arguments, _table()["contents"], UNKNOWN)
        self.act("write", values[0], "edit" if edits else "tool")
        self.keep(Word(os.path.expanduser(values[0])), text)
        given = [self.arguments[name] for name in _table()["contents"] if name in self.arguments]
        new = [text for one in given for text in ([one] if isinstance(one, str) else _strings(one))]
        self.act("memory", values[0], "\n".join(new) if edits else text)
        for one in new:
            self.bare("content", one)

    def cell(self, values: list[Any]) -> None:
        """A cell of a notebook is edited: it will run."""
        self.write(values)
        source = self.arguments.get("new_source")
        if not isinstance(source, str) or self.arguments.get("cell_type") == "markdown":
            return
        if source.startswith(("%%bash", "%%sh", "%%script")):
            self.reader.read(source.partition("\n")[2], self.scope)
            return
        lines = source.splitlines()
        for line in lines:
            if line.startswith("!"):
                self.reader.read(line[1:], self.scope)
        self.python(["\n".join(line for line in lines if not line.startswith(("!", "%")))])

    def patch(self, values: list[Any]) -> None:
        """A patch for several files, as a text or as the words of a command."""
        text = "\n".join(_strings(values))
        found = [(verb, path or other) for verb, path, other in _PATCH.findall(text)]
        if not found:
            self.reading.doubt("A patch names no file.")
        for verb, name in found:
            if name != "/dev/null":
                self.act("delete" if verb == "Delete File" else "write", name, "edit")
                self.act("memory", name, text)
        self.bare("content", "\n".join(line[1:] for line in text.splitlines() if line.startswith("+")))

    def fetch(self, values: list[Any]) -> None:
        """A URL is asked for."""
        for text in _strings(values):
            for url in _URL.findall(text) or ([] if " " in text else [text]):
                if url.lower().startswith("file:"):
                    self.act("read", re.sub(r"(?i)^file:/+(?:localhost/)?", "/", url))
                else:
                    self.host("connect", url, "tool")
                    self.bare("content", url)

    def generic(self, told: str) -> None:
        """A tool that is not known: paths, URLs and commands in its arguments, however deep."""
        tool = self.tool.rpartition("__")[2].lower()
        kind = "delete" if _DELETES.search(tool) else "write" if told == "write" or _WRITES.search(tool) else "read"
        if told == "readonly":
            kind = "read"
        if kind == "delete" and re.search("dir|folder", tool):
            kind = "delete-tree"
        for name, text in _named(self.arguments, ""):
            if name in _table()["commands"]:
                self.reader.read(text, replace(self.scope))
            elif name in {"code", "python"} and re.search("python|notebook|jupyter|execute", tool):
                self.python([text])
            elif name in {"sql", "query", "statement"} or re.search("sql|query|database", tool):
                self.bare("statement", without_strings(text))
            elif _URL.search(text):
                self.fetch([text])
            elif name in {"host", "hostname", "server"} and " " not in text:
                self.host("connect", text, "tool")
            elif _is_path(name, text):
                self.act(kind, text, "tool")
            elif name in {"content", "text", "body", "data", "message"}:
                self.bare("content", text)


_READS: dict[str, Callable[[_Tool, list[Any]], object]] = {
    **dict.fromkeys(("shell", "other-shell"), _Tool.on_shell),
    **dict.fromkeys(("read", "grep", "delete", "move"), _Tool.on_files),
    **dict.fromkeys(("write", "edit"), _Tool.write),
    "typing": _Tool.typed,
    "python": _Tool.python,
    "notebook": _Tool.cell,
    "patch": _Tool.patch,
    "fetch": _Tool.fetch,
    "memory": lambda tool, _: tool.act("memory", "AGENTS.md", "\n".join(_strings(tool.arguments))),
    "escalate": lambda tool, _: tool.bare("escalate"),
}


def _is_path(name: str, text: str) -> bool:
    if len(text) > 1024 or "\n" in text:
        return False
    return _PATH_NAME.search(name) is not None or text.startswith(("/", "~/", "./", "../", ".env"))


def _strings(value: Any) -> list[str]:
    return [text for _, text in _named(value, "")]


def _named(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The strings of a value, each with the name of its field."""
    stack: list[tuple[str, Any]] = [(name, value)]
    count = 0
    while stack and count < MOST_STRINGS:
        name, value = stack.pop()
        if isinstance(value, str):
            count += 1
            if value[:1] == "{" and value[-1:] == "}":
                try:
                    stack.append((name, json.loads(value)))
                except ValueError:
                    pass
                else:
                    continue
            yield name, value
        elif isinstance(value, dict):
            stack += [(str(key), one) for key, one in reversed(value.items())]
        elif isinstance(value, list | tuple):
            stack += [(name, one) for one in reversed(value)]
