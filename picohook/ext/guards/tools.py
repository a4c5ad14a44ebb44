"""Tools of agents: shells, file tools, the network, MCP servers. `tools.toml` has their names, and what their calls do."""

import contextlib
import json
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expansion import Scope
from .names import data
from .programs import Started
from .reader import Reader
from .reading import Command
from .rows import Row, Split, Step
from .words import Word

_SERVER = re.compile(r"mcp__.*|mcp_.*|MCP:.*", re.IGNORECASE)
_OF_SERVER = re.compile(r"mcp__((?:(?!__).)+)__(?!_)(?:(?!__).)+")
"""A tool of an MCP server. A name that may be read in two ways is of none."""
_KEYS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\{?<?(?:enter|ctrl-c|up|down|left|right|esc|tab)>?\}?")
_PATCH = "*** Begin Patch"
_LONGEST_FLAG = 40
"""The longest value of an argument that a step's condition may name."""
_DATA = data("tools")


@dataclass(frozen=True)
class _Kind(Row):
    """Tools of one kind, or what a tool that is not known does with an argument."""

    names: Sequence[str] = ()
    field: Sequence[str] = ()
    optional: bool = False
    match: str = ""
    tool: str = ""


_KINDS = {name: kind for given in _DATA["kinds"] for kind in [_Kind(**given)] for name in kind.names}
_OTHERS = [_Kind(**given) for given in _DATA["others"]]


def server_of(name: str) -> str | None:
    """The MCP server that has the named tool; None if that is not certain."""
    found = _OF_SERVER.fullmatch(name)
    return found[1] if found else None


def annotated(context: Mapping[str, Any]) -> str | None:
    """The kind of a tool by the annotations of its MCP server; None if they do not say whether it only reads."""
    hints = context.get("mcp_annotations")
    if not isinstance(hints, dict) or hints.keys().isdisjoint({"readOnlyHint", "destructiveHint"}):
        return None
    return "readonly" if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True else "write"


def read(name: str, arguments: Mapping[str, Any], reader: Reader, scope: Scope, *, told: str = "") -> None:
    """Read a call of the named tool into the reader's reading. `told`: what kind its server says that it is, if trusted."""
    base = next((arguments[one] for one in _DATA["directories"] if isinstance(arguments.get(one), str)), "")
    if base:
        scope.cwds = (os.path.normpath(os.path.join(scope.cwds[0], os.path.expanduser(base))),)
    kind = None if _SERVER.fullmatch(name) else _KINDS.get(name.lower())
    if kind and kind.name == "shell" and "shell" in arguments:
        shell = _KINDS.get(os.path.basename(str(arguments["shell"])).lower(), kind)
        kind = shell if shell.name == "other-shell" else kind
    named = [] if kind and kind.name == "shell" else [*_named("", arguments, parses=kind is None)]
    tool = _Tool(reader, Command([Word(name), *(Word(text) for _, text in named)], name, scope.cwds), scope)
    tool.given = [(f"--{one}", Word(text)) for one, text in named]
    if kind is not None:
        tool.known(kind, arguments)
        return
    verb = name.rpartition("__")[2].lower()
    verbs = [] if told == "readonly" else [one for one, names in _DATA["verbs"].items() if re.search(names, verb)]
    tool.command.options = dict.fromkeys([f"--{one}" for one in verbs] + ["--write"] * (told == "write"), "")
    for one, text in named:
        about = (row for row in _OTHERS if re.search(row.match, f"{one}={text}") and re.search(row.tool, verb))
        if row := next(about, None):
            tool.do(row, Split({}, [Word(text)], tool.given))


class _Tool(Started):
    """A call of a tool."""

    def known(self, kind: _Kind, arguments: Mapping[str, Any]) -> None:
        """Note what a call of this kind does."""
        for one, value in arguments.items():
            if one not in kind.field and isinstance(value, bool | str) and len(str(value)) < _LONGEST_FLAG:
                self.command.options[f"--{one}={value}"] = ""
        values = [arguments[one] for one in kind.field if arguments.get(one) not in (None, "")]
        if not values:  # a patch names its files itself
            values = [one for one in arguments.values() if isinstance(one, str) and one.lstrip().startswith(_PATCH)]
        for value in values:
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
                self.reading.doubt(f"The `{kind.field[0]}` of {self.command.name} is not a text.")
                continue
            each = [[Word(one)] for one in texts]
            if kind.name == "shell" and value is texts:  # the words of one command; `commands` may also be several
                each = [*(each if value is arguments.get("commands") else ()), [*map(Word, texts)]]
            for words in each:
                is_patch = len(words) == 1 and words[0].text.lstrip().startswith(_PATCH)
                self.do(_KINDS["apply_patch"] if is_patch else kind, Split({}, words, self.given))
        if not kind.field:
            self.do(kind, Split({}, [], self.given))
        elif not (values or kind.optional or any(one in arguments for one in kind.field)):
            self.reading.doubt(f"The call of {self.command.name} lacks its `{kind.field[0]}`.")

    def act(self, kind: str, word: Word, detail: str = "") -> None:
        """Note an act on a file, whose path may begin with a tilde."""
        super().act(kind, self._path(word), detail)

    def paths(self, word: Word) -> list[str]:
        """The paths of a file that may be run later."""
        return super().paths(self._path(word))

    def _path(self, word: Word) -> Word:
        path = re.sub(r"^(?:~(?=/|$)|\$HOME)", lambda _: self.reader.home, word.text.replace("\0", "\ufffd"))
        return Word(os.path.expanduser(path), "*" in path)

    def do_memory(self, _step: Step, words: list[Word]) -> None:
        """Agents are told the words later."""
        self.act("memory", Word("AGENTS.md"), "\n".join(word.text for word in words))

    def do_eval(self, step: Step, words: list[Word]) -> None:
        """The words of a list are one command."""
        if len(words) > 1:
            self.reader.execute(words, self.scope)
        else:
            self.do_shell(step, words)

    def do_typed(self, _step: Step, words: list[Word]) -> None:
        """The words are typed into an open shell."""
        for word in words:
            plain = _KEYS.sub("", word.text.replace("\r\n", "\n").replace("\r", "\n"))
            self.reader.read(plain, self.scope)
            if plain == word.text and not plain.endswith("\n") and len(plain.strip()) > 1:
                self.reading.doubt("This is half a line for an open shell.")


def _named(name: str, value: Any, *, parses: bool) -> Iterator[tuple[str, str]]:
    """The strings of a value, each with the name of its field. `parses`: also those in a string that is JSON."""
    if parses and isinstance(value, str) and value[:1] == "{" and value[-1:] == "}":
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _named(str(key), one, parses=parses)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _named(name, one, parses=parses)
