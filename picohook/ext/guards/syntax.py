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
    from collections.abc import Iterator

    from tree_sitter import Node

MOST_BYTES = 200_000
"""The longest text that is read, without here-documents."""
MOST_NODES = 20_000
TIME_LIMIT = 0.02
"""Seconds of the processor for one parse, as a backstop."""
_MARK = "__PICOHOOK_HERE_"
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\U0010f000-\U0010ffff]")
_BACKSLASH = re.compile(r"\n[ \t]*\\[A-Za-z]")
"""A line that begins with a backslash, which the tree takes for more of the line before."""
_BEFORE_COMMENT = frozenset(" \t\n;&|()")
_DELIMITER = re.compile(r"""(?:[^\s\\'"`$;&|()<>]|\\[^\n]|'[^'\n]*'|"[^"\\`$\n]*")+(?=[ \t\n;&|()<>`]|\Z)""")
_OPENERS = {"$((": "arithmetic", "((": "arithmetic", "${": "brace", '"': "double"}
"""What begins with these. With all others that open something, a parenthesis."""
_TOKENS = {
    "double": re.compile(r'\\.|["`]|\$\(\(?|\$\{', re.DOTALL),
    "brace": re.compile(r"\\.|[\"'`}]|\$\(\(|[$<>]\(|\$\{", re.DOTALL),
    "arithmetic": re.compile(r"\\.|\$?'|[\"`]|\$\(\(|[$<>]\(|\$\{|\)\)?|\(|\n", re.DOTALL),
}
_TOKENS_OF_COMMANDS = re.compile(r"\\.|\$?'|[\"`#\n]|\$\(\(|[$<>]\(|\$\{|<<<|<<-?|\(\(?|\)", re.DOTALL)
_EXPANSION = re.compile(r"\\([\\$`\n])|\$(?:\w+|[@*#?$!-])|(\$[({]|`)")


class UnreadableError(Exception):
    """The text cannot be read with certainty. The message is one phrase that says why."""


class TooMuchError(UnreadableError):
    """Reading takes too long. Nothing more of the call is read."""


class HereDocument(NamedTuple):
    """A here-document of a text."""

    body: str
    literal: bool
    """Whether nothing in it is expanded."""


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
    if _MARK in text:
        raise UnreadableError("it has a name that guards use")
    scanner = _Scanner(text)
    if "<<" in text or _BACKSLASH.search(text):
        text = scanner.cut()
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
    return Source(data, root, scanner.documents, scanner.strings)


def expansions(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a here-document, each with whether it is expanded. Raises `UnreadableError`."""
    at = 0
    while found := _EXPANSION.search(text, at):
        yield text[at : found.start()], False
        at = found.end()
        if found[1]:
            yield found[1].strip("\n"), False
            continue
        if found[2]:
            at = _Scanner(text, found.start()).end()
        yield text[found.start() : at], True
    yield text[at:], False


class _Scanner:
    """Goes through a text from one sign to the next, and knows in which quotes and expansions it is."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at
        self.documents: dict[str, HereDocument] = {}
        self.strings: set[int] = set()
        self._out: list[str] = []
        self._pending: list[tuple[str, str, bool, bool]] = []
        self._inside = ["command"]

    def cut(self) -> str:
        """Returns the text without here-documents: `<NAME` stands where each began."""
        while self._step():
            pass
        if self._pending:
            raise UnreadableError("a here-document has no body")
        return "".join([*self._out, self.text[self.at :]])

    def end(self) -> int:
        """Returns where the expansion that begins here ends. Raises `UnreadableError` if that is not certain."""
        self._inside = ["double"]
        while self._step():
            if len(self._inside) == 1:
                return self.at
        raise UnreadableError("a here-document has an expansion that is not understood")

    def _step(self) -> bool:
        """Go behind the next sign. Returns whether there was one."""
        inside = self._inside[-1]
        found = _TOKENS.get(inside, _TOKENS_OF_COMMANDS).search(self.text, self.at)
        if found is None:
            return False
        sign = found[0]
        self._copy(found.start())
        if sign[0] == "\\":
            self._escape(found.end(), in_command=inside not in {"double", "brace"})
        elif sign.endswith("'"):
            self._single(found.end(), escapes=sign == "$'")
        elif sign == "#":
            self._comment()
        elif sign.startswith("<<"):
            self._here(sign)
        else:
            self._copy(found.end())
            self._turn(sign, inside)
        return True

    def _copy(self, end: int) -> None:
        self._out.append(self.text[self.at : end])
        self.at = end

    def _turn(self, sign: str, inside: str) -> None:
        """Enter or leave what the sign begins or ends."""
        if sign == "\n":
            self._bodies()
        elif sign == "`" and "backtick" in self._inside:
            while self._inside.pop() != "backtick":
                pass
        elif sign == "`":
            self._inside.append("backtick")
        elif (sign, inside) in {('"', "double"), ("}", "brace")}:
            self._inside.pop()
        elif sign[0] == ")":
            if inside in {"arithmetic", "parenthesis"}:  # `case x in a)` closes nothing
                self._inside.pop()
        else:
            self._inside.append(_OPENERS.get(sign, "parenthesis"))

    def _escape(self, end: int, *, in_command: bool) -> None:
        before = self.text[: self.at].rstrip(" \t") if in_command else ""
        if before.endswith("\n") and not before.endswith("\\\n") and self.text[end - 1].isalpha():
            self._out.append("''")  # a line begins with a backslash: this is as good a quote, and the tree sees it
            self.at += 1
        else:
            self._copy(end)

    def _single(self, start: int, *, escapes: bool) -> None:
        if self._inside[-1] == "brace" and "double" in self._inside:
            self._copy(start)
            return
        found = re.compile(r"(?:[^'\\]|\\.)*'" if escapes else "[^']*'", re.DOTALL).match(self.text, start)
        if found is None:
            raise UnreadableError("a quote is not closed")
        self._copy(found.end())

    def _comment(self) -> None:
        if self.at == 0 or self.text[self.at - 1] in _BEFORE_COMMENT:
            end = self.text.find("\n", self.at)
            self._copy(len(self.text) if end < 0 else end)
        else:
            self._copy(self.at + 1)

    def _here(self, sign: str) -> None:
        self.at += len(sign)
        if sign == "<<<":
            self.strings.add(len("".join(self._out).encode()))
            self._out.append("<")
            return
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        found = _DELIMITER.match(self.text, self.at)
        if found is None:
            raise UnreadableError("the end of a here-document is not a plain word")
        self.at = found.end()
        plain = re.sub(r"""\\(.)|'([^']*)'|"([^"]*)\"""", lambda m: m[1] or m[2] or m[3] or "", found[0])
        name = f"{_MARK}{len(self.documents) + len(self._pending)}__"
        self._pending.append((name, plain, sign == "<<-", plain != found[0]))
        self._out.append(f"<{name}")

    def _bodies(self) -> None:
        """Take the bodies of the here-documents that the line before has begun."""
        for name, delimiter, tabs, literal in self._pending:
            if self.documents and name != self._pending[0][0] and self.text.startswith("\n", self.at):
                self.at += 1
            self.documents[name] = HereDocument(self._body(delimiter, tabs=tabs, literal=literal), literal)
        self._pending.clear()

    def _body(self, delimiter: str, *, tabs: bool, literal: bool) -> str:
        lines: list[str] = []
        joined = ""
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            shown = line.lstrip("\t") if tabs else line
            if joined + shown == delimiter:
                self.at = end  # the newline ends the command
                break
            self.at = min(end + 1, len(self.text))
            if not literal and (len(shown) - len(shown.rstrip("\\"))) % 2:
                joined += shown[:-1]
                continue
            lines.append(joined + shown)
            joined = ""
            if self._inside[-1] != "command" and shown.startswith(delimiter) and ")" in shown[len(delimiter) :]:
                raise UnreadableError("a here-document may end in two places")
        return "".join(f"{line}\n" for line in lines)
