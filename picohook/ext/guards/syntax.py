"""Parses shell text with tree-sitter, after here-documents are cut out of it.

A tree without errors is no proof that bash reads the same. `reader` checks each node against the text as it walks.
"""

import re
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import PicohookError
from ...wire.extras import needs

try:
    import tree_sitter
    import tree_sitter_bash
except ImportError as error:
    raise PicohookError(needs("reading shell commands", str(error.name), "guards")) from None

Node = tree_sitter.Node
MOST_BYTES = 200_000
"""The longest text that is read, without here-documents."""
MOST_NODES = 20_000
TIME_LIMIT = 0.02
"""Seconds of the processor for one parse, as a backstop."""
_MARK = "__PICOHOOK_HERE_"
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\U0010f000-\U0010ffff]")
_ESCAPED_LINE = re.compile(r"\n[ \t]*\\(?=[A-Za-z])")
"""A line that begins with a backslash, which the tree takes for more of the line before. `''` is as good a quote."""
_TOKENS = {
    "(": re.compile(
        r"(?P<skip>\\.|'[^']*'|\$'(?:[^'\\]|\\.)*'|(?<![^ \t\n;&|()])#[^\n]*|<<<)|(?P<line>\n)|(?P<odd>')"
        r"|(?P<here><<(?P<tabs>-?)[ \t]*(?P<end>"
        r"""(?:[^\s\\'"`$;&|()<>]|\\[^\n]|'[^'\n]*'|"[^"\\`$\n]*")+(?=[ \t\n;&|()<>`]|\Z))?)"""
        r"|(?P<open>[\"(])|(?P<tick>`)|(?P<close>\))",
        re.DOTALL,
    ),
    '"': re.compile(r'(?P<skip>\\.)|(?P<open>\$\()|(?P<odd>\$\{[^}]*["\'`])|(?P<tick>`)|(?P<close>")', re.DOTALL),
}
"""What counts in commands, and in double quotes. It may err about `${..}` and `((`, and the tree tells: see `parse`."""
_TOKENS["`"] = _TOKENS["("]


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


_own = threading.local()


def parse(text: str) -> Source:
    """Returns the text as a tree. Raises `UnreadableError` if it is odd, has errors, or takes too long."""
    if _ODD.search(text):
        raise UnreadableError("it has a control character")
    if _MARK in text:
        raise UnreadableError("it has a name that guards use")
    scanner = _Scanner(text)
    if "<<" in text or _ESCAPED_LINE.search(text):
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
    for name in scanner.documents:  # one that the scanner has missed is a node that `reader` refuses
        at = data.find(name.encode())
        node = root.descendant_for_byte_range(at, at + len(name))
        if node is None or node.parent is None or node.parent.type != "file_redirect":
            raise UnreadableError("a here-document is not understood")
    return Source(data, root, scanner.documents)


class _Scanner:
    """Goes through a text from one sign to the next, and knows in which quotes and expansions it is."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.documents: dict[str, HereDocument] = {}
        self._out: list[str] = []
        self._pending: list[tuple[str, str, bool, bool]] = []
        self._inside = ["("]

    def cut(self) -> str:
        """Returns the text without here-documents: `<NAME` stands where each began."""
        while found := _TOKENS[self._inside[-1]].search(self.text, self.at):
            kind = found.lastgroup
            self._copy(found.start())
            if kind == "odd":
                raise UnreadableError("a quote is not closed")
            if kind == "here":
                self._here(found)
                continue
            self._copy(found.end())
            if kind == "line":
                self._bodies()
                if escaped := _ESCAPED_LINE.match(self.text, self.at - 1):
                    self._copy(escaped.end() - 1)
                    self._out.append("''")
                    self.at += 1
            elif kind == "open":
                self._inside.append(found[0][-1])
            elif kind == "tick" and "`" in self._inside:
                del self._inside[self._inside.index("`") :]
            elif kind == "tick":
                self._inside.append("`")
            elif kind == "close" and len(self._inside) > 1:
                self._inside.pop()
        if self._pending:
            raise UnreadableError("a here-document has no body")
        return "".join([*self._out, self.text[self.at :]])

    def _copy(self, end: int) -> None:
        self._out.append(self.text[self.at : end])
        self.at = end

    def _here(self, found: re.Match[str]) -> None:
        if found["end"] is None:
            raise UnreadableError("the end of a here-document is not a plain word")
        self.at = found.end()
        plain = re.sub(r"""\\(.)|'([^']*)'|"([^"]*)\"""", lambda m: m[1] or m[2] or m[3] or "", found["end"])
        name = f"{_MARK}{len(self.documents) + len(self._pending)}__"
        self._pending.append((name, plain, bool(found["tabs"]), plain != found["end"]))
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
            if len(self._inside) > 1 and shown.startswith(delimiter) and ")" in shown[len(delimiter) :]:
                raise UnreadableError("a here-document may end in two places")
        return "".join(f"{line}\n" for line in lines)
