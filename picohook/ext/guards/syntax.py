"""Parses shell text with tree-sitter, after here-documents are cut out of it.

A tree without errors is no proof that bash reads the same. `reader` checks each node against the text as it walks.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...errors import PicohookError
from ...wire.extras import needs

try:
    import tree_sitter
    import tree_sitter_bash
except ImportError as error:
    raise PicohookError(needs("reading shell commands", str(error.name), "guards")) from None

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_BYTES = 200_000
"""The longest text that is read, without here-documents."""
MOST_NODES = 20_000
TIME_LIMIT = 0.02
"""Seconds of the processor for one parse, as a backstop."""
MARK = "__PICOHOOK_HERE_"
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\U0010f000-\U0010ffff]")
_BACKSLASH = re.compile(r"\n[ \t]*\\[A-Za-z]")
"""A line that begins with a backslash, which the tree takes for more of the line before."""
_BEFORE_COMMENT = frozenset(" \t\n;&|()")
_DELIMITER = re.compile(r"""(?:[^\s\\'"`$;&|()<>]|\\[^\n]|'[^'\n]*'|"[^"\\`$\n]*")+""")


class UnreadableError(Exception):
    """The text cannot be read with certainty. The message is one phrase that says why."""


class HereDocument(NamedTuple):
    """A here-document or a here-string of a text."""

    body: str
    literal: bool
    """Whether nothing in it is expanded."""


class TooMuchError(UnreadableError):
    """Reading takes too long. Nothing more of the call is read."""


@dataclass(slots=True)
class Source:
    """A parsed text."""

    data: bytes
    root: Node
    documents: dict[str, HereDocument] = field(default_factory=dict)
    """By the name of the file that is redirected in their place."""
    strings: set[int] = field(default_factory=set)
    """Where a `<` stands for `<<<`."""


_own = threading.local()


def parse(text: str) -> Source:
    """Returns the text as a tree. Raises `UnreadableError` if it is odd, has errors, or takes too long."""
    if _ODD.search(text):
        raise UnreadableError("it has a control character")
    documents: dict[str, HereDocument] = {}
    strings: set[int] = set()
    if "<<" in text or _BACKSLASH.search(text):
        text = _Cutter(text, documents, strings).cut()
    data = text.encode()
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"it is longer than {MOST_BYTES} bytes")
    parser = getattr(_own, "parser", None)
    if parser is None:
        parser = _own.parser = tree_sitter.Parser(_LANGUAGE)
    end = time.thread_time() + TIME_LIMIT
    try:
        tree = parser.parse(lambda at, _: data[at:], progress_callback=lambda *_: time.thread_time() > end)
    except ValueError:
        parser.reset()  # otherwise the next tree is this text's
        raise UnreadableError("it takes too long to parse") from None
    root = tree.root_node
    if root.has_error:
        raise UnreadableError("its syntax is not understood")
    if root.descendant_count > MOST_NODES:
        raise UnreadableError(f"it has more than {MOST_NODES} nodes")
    return Source(data, root, documents, strings)


class _Cutter:
    """Takes the here-documents out of a text, and writes `<NAME` where each began."""

    def __init__(self, text: str, documents: dict[str, HereDocument], strings: set[int]) -> None:
        if MARK in text:
            raise UnreadableError("it has a name that guards use")
        self.text, self.documents, self.strings = text, documents, strings
        self.out: list[str] = []
        self.at = 0
        self.pending: list[tuple[str, str, bool, bool]] = []
        self.inside = ["command"]

    def cut(self) -> str:
        """Returns the text without the bodies."""
        text, size = self.text, len(self.text)
        while self.at < size:
            letter, inside = text[self.at], self.inside[-1]
            if letter == "\\":
                if inside not in {"double", "brace"} and self._begins_line():
                    self.out.append("''")  # as good a quote, and the tree sees it
                    self.at += 1
                else:
                    self._take(2)
            elif inside == "double":
                self._in_double(letter)
            elif inside == "brace":
                self._in_brace(letter)
            else:
                self._in_command(letter, inside)
        if self.pending:
            raise UnreadableError("a here-document has no body")
        return "".join(self.out)

    def _begins_line(self) -> bool:
        """Whether a word with a backslash before it begins a line here."""
        before = self.text[: self.at].rstrip(" \t")
        return before.endswith("\n") and not before.endswith("\\\n") and self.text[self.at + 1 : self.at + 2].isalpha()

    def _take(self, count: int) -> None:
        self.out.append(self.text[self.at : self.at + count])
        self.at += count

    def _opens(self, letter: str) -> bool:
        """Whether an expansion begins here. It is entered."""
        if letter == "`":
            if "backtick" in self.inside:
                while self.inside.pop() != "backtick":
                    pass
            else:
                self.inside.append("backtick")
            self._take(1)
        elif letter == "$" and self.text.startswith("$((", self.at):
            self.inside.append("arithmetic")
            self._take(3)
        elif letter in "$<>" and self.text.startswith("(", self.at + 1):
            self.inside.append("parenthesis")
            self._take(2)
        elif letter == "$" and self.text.startswith("${", self.at):
            self.inside.append("brace")
            self._take(2)
        else:
            return False
        return True

    def _in_double(self, letter: str) -> None:
        if letter == '"':
            self.inside.pop()
            self._take(1)
        elif letter in "<>" or not self._opens(letter):
            self._take(1)

    def _in_brace(self, letter: str) -> None:
        if letter == "}":
            self.inside.pop()
            self._take(1)
        elif letter == '"':
            self.inside.append("double")
            self._take(1)
        elif letter == "'" and "double" not in self.inside:
            self._skip_single(1)
        elif not self._opens(letter):
            self._take(1)

    def _skip_single(self, ahead: int, *, escapes: bool = False) -> None:
        end = self.at + ahead
        while True:
            end = self.text.find("'", end)
            if end < 0:
                raise UnreadableError("a quote is not closed")
            before = self.text[self.at + ahead : end]
            if not escapes or (len(before) - len(before.rstrip("\\"))) % 2 == 0:
                break
            end += 1
        self._take(end + 1 - self.at)

    def _in_command(self, letter: str, inside: str) -> None:
        text, at = self.text, self.at
        if letter == "'":
            self._skip_single(1)
        elif letter == "$" and text.startswith("$'", at):
            self._skip_single(2, escapes=True)
        elif letter == '"':
            self.inside.append("double")
            self._take(1)
        elif letter == "#" and (at == 0 or text[at - 1] in _BEFORE_COMMENT) and inside != "arithmetic":
            end = text.find("\n", at)
            self._take((len(text) if end < 0 else end) - at)
        elif letter == "<" and text.startswith("<<", at) and inside != "arithmetic":
            self._here()
        elif letter == "\n" and self.pending:
            self._take(1)
            self._bodies()
        elif self._opens(letter):
            pass
        elif letter == "(":
            arithmetic = text.startswith("((", at) and inside != "arithmetic"
            self.inside.append("arithmetic" if arithmetic else "parenthesis")
            self._take(2 if arithmetic else 1)
        elif letter == ")":
            twice = inside == "arithmetic" and text.startswith("))", at)
            if inside in {"arithmetic", "parenthesis"}:
                self.inside.pop()  # `case x in a)` closes nothing
            self._take(2 if twice else 1)
        else:
            self._take(1)

    def _here(self) -> None:
        if self.text.startswith("<<<", self.at):
            self.strings.add(len("".join(self.out).encode()))
            self.out.append("<")
            self.at += 3
            return
        tabs = self.text.startswith("<<-", self.at)
        self.at += 3 if tabs else 2
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        found = _DELIMITER.match(self.text, self.at)
        if found is None:
            raise UnreadableError("the end of a here-document is not a plain word")
        self.at = found.end()
        word = found.group()
        plain = re.sub(r"""\\(.)|'([^']*)'|"([^"]*)\"""", lambda m: m[1] or m[2] or m[3] or "", word)
        name = f"{MARK}{len(self.documents) + len(self.pending)}__"
        self.pending.append((name, plain, tabs, plain != word))
        self.out.append(f"<{name}")
        if self.at < len(self.text) and self.text[self.at] not in " \t\n;&|()<>`":
            raise UnreadableError("the end of a here-document is not a plain word")

    def _bodies(self) -> None:
        for name, delimiter, tabs, literal in self.pending:
            lines: list[str] = []
            joined = ""
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                line = self.text[self.at : len(self.text) if end < 0 else end]
                self.at = len(self.text) if end < 0 else end + 1
                shown = line.lstrip("\t") if tabs else line
                whole = joined + shown
                if whole == delimiter:
                    if end < 0:
                        self.at = len(self.text)
                    else:
                        self.at = end  # the newline ends the command
                    break
                if not literal and (len(shown) - len(shown.rstrip("\\"))) % 2:
                    joined = whole[:-1]
                    continue
                lines.append(whole)
                joined = ""
                if self.inside[-1] != "command" and shown.startswith(delimiter) and ")" in shown[len(delimiter) :]:
                    raise UnreadableError("a here-document may end in two places")
            self.documents[name] = HereDocument("\n".join([*lines, ""]) if lines else "", literal)
            if name != self.pending[-1][0] and self.text.startswith("\n", self.at):
                self.at += 1
        self.pending.clear()
