"""Tools of agents: shells, file tools, the network, MCP servers, by the names in `tools.toml`."""

from __future__ import annotations

import functools
import json
import os.path
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import code
from .effects import NOWHERE, Effects
from .places import host_of
from .programs import without_strings
from .reading import Act, Command
from .words import UNKNOWN, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .programs import Programs
    from .reader import Reader, Scope

MOST_STRINGS = 400
"""Strings of a call that are looked at for paths and URLs."""
_CONTENTS = (
    "content",
    "contents",
    "text",
    "file_text",
    "new_string",
    "new_str",
    "new_text",
    "new_source",
    "edits",
    "insert_text",
)
_DIRECTORIES = ("workdir", "dir_path", "cwd", "working_directory", "workingDirectory", "directory")
_SHELL_FIELDS = frozenset(("command", "cmd", "script", "shell", "bash", "command_line"))
_SERVER = re.compile(r"mcp__.*|mcp_.*|MCP:.*", re.IGNORECASE)
_URL = re.compile(r"(?:https?|wss?|ftp|file)://[^\s\"'<>]+", re.IGNORECASE)
_PATCH = re.compile(
    r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$|^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE
)
_DELETES = re.compile(r"(?:^|_|__|-)(?:delete|remove|rm|unlink|drop|destroy|purge)", re.IGNORECASE)
_WRITES = re.compile(
    r"(?:^|_|__|-)(?:write|edit|create|save|put|update|append|move|rename|copy|insert|replace|modify)", re.IGNORECASE
)
_OPENS = re.compile(
    r"\s*(?:exec\s+)?(?:\S*/)?(?:sh|bash|zsh|dash|fish|ksh|python3?|ipython|node|irb|psql|mysql|ssh|screen|tmux|sqlite3"
    r"|perl -de ?\d)(?:\s+-\w*[il]\w*|\s+[\w.@-]+)?\s*"
)


class Call(NamedTuple):
    """A tool call."""

    tool: str
    arguments: Mapping[str, Any]
    agent: str = ""


@functools.cache
def _kinds() -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    with Path(__file__).with_name("tools.toml").open("rb") as file:
        document = tomllib.load(file)
    kinds = {name: kind for kind, row in document.items() for name in row["names"]}
    return kinds, {kind: tuple(row["field"]) for kind, row in document.items()}


def read(call: Call, reader: Reader, programs: Programs, scope: Scope) -> None:
    """Read a call into the reader's reading."""
    kinds, fields = _kinds()
    kind = kinds.get(call.tool.lower(), "")
    arguments = call.arguments
    base = next((arguments[one] for one in _DIRECTORIES if isinstance(arguments.get(one), str) and arguments[one]), "")
    if base:
        scope.cwds = (os.path.normpath(os.path.join(scope.cwds[0], os.path.expanduser(base))),)
    made = _Tool(call, reader, programs, scope)
    if kind == "none" or not isinstance(call.tool, str):
        return
    if kind == "" or _SERVER.fullmatch(call.tool):
        made.generic()
        return
    names = fields[kind]
    found = [one for one in names if arguments.get(one) not in (None, "")]
    if kind == "edit" and not found:
        patch = [value for value in arguments.values() if isinstance(value, str) and "*** Begin Patch" in value]
        if patch:
            made.patch(patch[0])
            return
    if names and not found:
        if kind not in {"typing", "read-many"} and not any(one in arguments for one in names):
            reader.reading.doubt(f"The call of {call.tool} lacks its `{names[0]}`.")
        return
    values = [arguments[one] for one in found]
    texts = [value for value in values if isinstance(value, str)]
    if kind in {"shell", "patch", "other-shell"}:
        made.run(kind, values)
    elif not texts and names and kind not in {"read-many", "fetch"}:
        reader.reading.doubt(f"The `{found[0]}` of {call.tool} is not a text.")
    else:
        getattr(made, "on_" + kind.replace("-", "_"))(texts or values)


class _Tool:
    def __init__(self, call: Call, reader: Reader, programs: Programs, scope: Scope) -> None:
        self.call, self.reader, self.programs, self.scope = call, reader, programs, scope
        self.reading = reader.reading

    def act(self, kind: str, path: str, detail: str = "") -> None:
        """Note an act on a file."""
        text = os.path.expanduser(path) if path.startswith("~") else path
        if text.startswith(("~", "$HOME")):
            text = self.reader.home + text.removeprefix("~").removeprefix("$HOME")
        target = self.programs.places.target(text.replace("\0", "\ufffd"), self.scope.cwds[0], glob="*" in text)
        self.reading.acts.append(Act(kind, target, None, detail))

    def bare(self, kind: str, detail: str = "") -> None:
        """Note an act without a path."""
        self.reading.acts.append(Act(kind, NOWHERE, None, detail))

    def run(self, kind: str, values: list[Any]) -> None:
        """A shell text, a list of words, or a patch."""
        arguments = self.call.arguments
        if (
            arguments.get("dangerouslyDisableSandbox") is True
            or arguments.get("sandbox_permissions") == "require_escalated"
            or arguments.get("with_escalated_permissions") is True
        ):
            self.bare("escalate")
        for value in values:
            if isinstance(value, list) and all(isinstance(one, str) for one in value):
                if value and value[0] in {"apply_patch", "applypatch"}:
                    self.patch("\n".join(value[1:]))
                else:
                    self.reader.execute([Word(one) for one in value], self.scope)
            elif not isinstance(value, str):
                self.reading.doubt(f"The command of {self.call.tool} is not a text.")
            elif value.lstrip().startswith("*** Begin Patch") or kind == "patch":
                self.patch(value)
            elif kind == "other-shell" or str(arguments.get("shell", "")).rpartition("/")[2] in {
                "fish",
                "pwsh",
                "powershell",
                "cmd",
                "powershell.exe",
                "cmd.exe",
                "nu",
            }:
                if not re.fullmatch(
                    r"\s*(?:ls|dir|pwd|echo [\w\s]*|cat [\w./-]+|git (?:status|log|diff)[\w\s./-]*|Get-\w+(?: [\w./-]+)?)\s*",
                    value,
                ):
                    self.reading.doubt("Guards do not read this shell.")
            else:
                if arguments.get("tty") is True and _OPENS.fullmatch(value):
                    self.bare("open-shell", value)
                self.reader.read(value, self.scope)

    def on_typing(self, texts: list[str]) -> None:
        """Text for an open shell."""
        for text in texts:
            plain = re.sub(
                r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\{?<?(?:enter|ctrl-c|up|down|left|right|esc|tab)>?\}?",
                "",
                text.replace("\r\n", "\n").replace("\r", "\n"),
            )
            self.reader.read(plain, self.scope)
            if plain.strip() and not plain.endswith("\n") and len(plain.strip()) > 1 and plain == text:
                self.reading.doubt("This is half a line for an open shell.")

    def on_python(self, texts: list[str]) -> None:
        """Python code."""
        command = Command([Word("python3")], "python3", self.scope.cwds)
        for text in texts:
            code.note(Effects(self.programs, self.reader, command, self.scope), "python", text)

    def on_read(self, texts: list[str]) -> None:
        """A file is read."""
        for text in texts[:1]:
            self.act("read", text)

    def on_read_many(self, values: list[Any]) -> None:
        """Several files are read."""
        for text in _strings(values):
            self.act("read", text)

    def on_write(self, texts: list[str]) -> None:
        """A file is written."""
        command = str(self.call.arguments.get("command", "create"))
        if command == "view":
            self.on_read(texts)
            return
        self.act("write", texts[0], "tool")
        content = next(
            (self.call.arguments[one] for one in _CONTENTS[:4] if isinstance(self.call.arguments.get(one), str)),
            UNKNOWN,
        )
        self.programs.texts[self.reading.acts[-1].target.path] = content
        self.act("memory", texts[0], content)
        self._content()

    def on_edit(self, texts: list[str]) -> None:
        """A file is edited."""
        if self.call.arguments.get("command") == "view":
            self.on_read(texts)
            return
        self.act("write", texts[0], "edit")
        self.programs.texts[self.reading.acts[-1].target.path] = UNKNOWN
        new = _strings([self.call.arguments.get(name) for name in _CONTENTS])
        self.act("memory", texts[0], "\n".join(new))
        self._content()

    def on_notebook(self, texts: list[str]) -> None:
        """A cell of a notebook is edited: it will run."""
        self.act("write", texts[0], "edit")
        source = self.call.arguments.get("new_source")
        if isinstance(source, str) and self.call.arguments.get("cell_type") != "markdown":
            if source.startswith(("%%bash", "%%sh", "%%script")):
                self.reader.read(source.partition("\n")[2], self.scope)
            else:
                for line in source.splitlines():
                    if line.startswith("!"):
                        self.reader.read(line[1:], self.scope)
                self.on_python(["\n".join(line for line in source.splitlines() if not line.startswith(("!", "%")))])
        self._content()

    def on_delete(self, texts: list[str]) -> None:
        """A file or a directory is deleted."""
        tree = "dir" in self.call.tool.lower() or self.call.arguments.get("recursive") is True
        self.act("delete-tree" if tree else "delete", texts[0])

    def on_move(self, texts: list[str]) -> None:
        """A file is moved."""
        self.act("move", texts[0])
        for name in ("destination", "to", "target", "new_path", "dest"):
            if isinstance(self.call.arguments.get(name), str):
                self.act("write", self.call.arguments[name], "move")

    def on_search(self, texts: list[str]) -> None:
        """Names or lines are searched; the lines of a file with secrets are read."""
        del texts
        path, pattern = self.call.arguments.get("path"), self.call.arguments.get("glob")
        if "grep" in self.call.tool.lower() and isinstance(path, str):
            self.act("read", path)
        if isinstance(pattern, str) and pattern.startswith(".env"):
            self.act("read", pattern)

    def on_fetch(self, values: list[Any]) -> None:
        """A URL is asked for."""
        for text in _strings(values):
            urls = _URL.findall(text) or ([text] if " " not in text else [])
            for url in urls:
                self._url(url)

    def on_memory(self, texts: list[str]) -> None:
        """Something is kept for later sessions."""
        del texts
        self.act("memory", "AGENTS.md", "\n".join(_strings([dict(self.call.arguments)])))

    def on_escalate(self, texts: list[str]) -> None:
        """More rights are asked for."""
        del texts
        self.bare("escalate")

    def patch(self, text: str) -> None:
        """A patch for several files."""
        found = _PATCH.findall(text)
        if not found:
            self.reading.doubt("A patch names no file.")
        for verb, path, other in found:
            name = path or other
            if name == "/dev/null":
                continue
            self.act({"Delete File": "delete"}.get(verb, "write"), name, "edit")
            self.act("memory", name, text)
        self.bare("content", "\n".join(line[1:] for line in text.splitlines() if line.startswith("+")))

    def _content(self) -> None:
        for name in _CONTENTS:
            value = self.call.arguments.get(name)
            for text in [value] if isinstance(value, str) else _strings([value]):
                self.bare("content", text)

    def _url(self, url: str) -> None:
        if url.lower().startswith("file:"):
            self.act("read", re.sub(r"^file:/+(?:localhost/)?", "/", url, flags=re.IGNORECASE))
        else:
            self.reading.acts.append(Act("connect", host_of(url), None, "tool"))
            self.bare("content", url)

    def generic(self) -> None:
        """A tool that is not known: paths, URLs and commands in its arguments, however deep."""
        tool = self.call.tool.rpartition("__")[2] if "__" in self.call.tool else self.call.tool
        kind = "delete" if _DELETES.search(tool) else "write" if _WRITES.search(tool) else "read"
        tree = kind == "delete" and ("dir" in tool.lower() or "folder" in tool.lower())
        arguments: Any = self.call.arguments
        for name, text in _named(arguments, ""):
            if name in _SHELL_FIELDS:
                self.reader.read(text, replace(self.scope))
            elif name in {"code", "python"} and re.search(r"python|notebook|jupyter|execute", tool, re.IGNORECASE):
                self.on_python([text])
            elif name in {"sql", "query", "statement"} or re.search(r"sql|query|database", tool, re.IGNORECASE):
                self.bare("statement", without_strings(text))
            elif _URL.search(text):
                for url in _URL.findall(text):
                    self._url(url)
            elif name in {"host", "hostname", "server"} and " " not in text:
                self.reading.acts.append(Act("connect", host_of(text), None, "tool"))
            elif _is_path(name, text):
                self.act("delete-tree" if tree else kind, text, "tool")
            elif name in {"content", "text", "body", "data", "message"}:
                self.bare("content", text)


def _is_path(name: str, text: str) -> bool:
    if len(text) > 1024 or "\n" in text:
        return False
    named = (
        name.lower()
        .replace("_", "")
        .endswith(("path", "paths", "file", "files", "filename", "source", "destination", "uri", "dir", "directory"))
    )
    return named or text.startswith(("/", "~/", "./", "../", ".env"))


def _strings(values: Iterable[Any]) -> list[str]:
    return [text for value in values for _, text in _named(value, "")]


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
