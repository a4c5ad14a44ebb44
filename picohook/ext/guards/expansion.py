"""Expands words as a shell does: quotes, variables, substitutions, braces, tildes.

A scan of the text finds what a word consists of. The tree knows where a substitution ends, and has to agree that one begins.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from .names import listed
from .reading import Command, Feed
from .syntax import Node, Source, UnreadableError, parse
from .words import DEFENDED, OPEN, PLAIN, QUOTED, SPLIT, UNKNOWN, Word, ansi, braces, edited, hidden, shown, unknown

LONGEST_VALUE = 20_000
"""Characters of a variable's value that is followed."""
LONGEST_EDITED = 1_000
"""Characters of a value of which an end is cut off."""
_PLAIN = re.compile(r"[\w./:=@%+,^#-]+")
_NAME = rb"(?P<name>\$(?:[A-Za-z_]\w*|[@*#?$]|[0-9!-](?!\w)|\{\w+\}))|(?P<node>\$[({\[]|`%s)"
_LITERAL = rb"|\\\n|\\(?P<escaped>%s[\x80-\xbf]*)|(?P<text>%s|\$(?![\w({\[@*#?!$%s-]))"
_OUTSIDE = rb"'(?P<single>[^']*)'|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|\$?(?P<quote>\")|" + _NAME % rb"|[<>]\("
_PARTS = {
    "word": _OUTSIDE + _LITERAL % (rb"[^\n]", rb"[^\\'\"`$<>;&|() \t\n]+", rb"'\""),
    "operand": rb"(?P<blank>[ \t\n]+)|(?P<brace>\})|"
    + _OUTSIDE
    + _LITERAL % (rb"[^\n]", rb"[^\\'\"`$<> \t\n}]+|[<>]", rb"'\""),
    "quoted": rb"(?P<quote>\")|(?P<brace>\})|" + _NAME % b"" + _LITERAL % (rb"[$`\"\\]", rb"[^\\`$\"}]+|\\", b""),
    "document": _NAME.replace(rb"(?!\w)", b"") % b"" + _LITERAL % (rb"[$`\\]", rb"[^\\`$]+|\\", b""),
}
_PATTERNS = {kind: re.compile(text, re.DOTALL) for kind, text in _PARTS.items()}
"""What a text consists of: a word, what is in `${..}` or `[[ ]]`, what is between quotes, a here-document."""
_PARAMETER = re.compile(
    rb"\$\{([!#])?(\w+|[@*?$!#-])(\[(?:[^\]`$]|\$\w+)*\])?(:?[-=+?]|##?|%%?|//?|\^\^?|,,?|@|:|(?=\}))", re.DOTALL
)
_COUNTED = re.compile(rb"\b([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=|\+\+|--)")
"""Variables that arithmetic changes."""
_GLOB = re.compile(r"[*?\[]")
_INDEX = re.compile(r"\w\[.*(?:\$\(|`)", re.DOTALL)
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
_NESTED = _SUBSTITUTIONS | {"expansion", "arithmetic_expansion"}
_USUAL: dict[str, str] = {
    **dict.fromkeys((*listed("never-empty"), *"?#$!-"), PLAIN),
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), "/tmp"),
    "IFS": " \t\n",
}
"""Variables whose values are known, or known not to be empty."""
_CHANGE_PROGRAMS = frozenset(("BASH_ENV", "ENV", "LD_PRELOAD", "PROMPT_COMMAND", "LD_LIBRARY_PATH"))
_TABLES = ("variables", "sources", "functions", "aliases")


@dataclass(slots=True)
class Scope:
    """What a shell knows at one point of a line."""

    cwds: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    """An array is a text of several parts."""
    sources: dict[str, tuple[Command, ...]] = field(default_factory=dict)
    """The commands whose output a variable has."""
    functions: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    positional: list[str] | None = None
    before: tuple[str, ...] = ()
    """Where the shell still is if the last `cd` failed."""
    feed: Feed | None = None
    via: tuple[str, ...] = ()
    parallel: bool = False
    """Whether it is a stage of a pipe, or in the background."""
    strict: bool = False
    """Whether the first failure ends it: `set -e`."""
    odd: str = ""
    """Why the shell may mean something else by what follows."""

    def copy(self) -> Self:
        """The same for a subshell, whose changes stay in it."""
        copy = replace(self)
        for name in _TABLES:
            setattr(copy, name, dict(getattr(self, name)))
        return copy

    def settle(self) -> None:
        """The statement with the last `cd` has ended."""
        if self.before:
            self.cwds = tuple(dict.fromkeys((*self.cwds, *self.before)))[:4]
            self.before = ()

    def merge(self, *branches: Self) -> None:
        """Continue after one of these branches."""
        for branch in branches:
            branch.settle()
        self.cwds = tuple(dict.fromkeys(cwd for branch in branches for cwd in branch.cwds))[:4]
        for name in {name for branch in branches for name in branch.variables}:
            values = {branch.variables.get(name, self.variables.get(name, UNKNOWN)) for branch in branches}
            self.variables[name] = values.pop() if len(values) == 1 else UNKNOWN
        for branch, name in itertools.product(branches, _TABLES[1:]):
            getattr(self, name).update(getattr(branch, name))


class _Text:
    """A text that is scanned from left to right."""

    def __init__(self, data: bytes, start: int, end: int, nodes: Sequence[Node] = ()) -> None:
        """`nodes`: those of the tree that it consists of."""
        self.data, self.at, self.end = data, start, end
        self._nodes = [*nodes]
        self._nested: dict[int, Node] = {}

    def node(self, at: int) -> Node:
        """The node of the expansion that begins there. Raises `UnreadableError` if the tree has none."""
        while self._nodes:
            node = self._nodes.pop()
            if node.type in _NESTED:
                self._nested[node.children[0].end_byte - len(node.children[0].type)] = node
            if node.type not in _SUBSTITUTIONS:
                self._nodes += node.named_children
        if at not in self._nested or self._nested[at].end_byte > self.end:
            raise UnreadableError("an expansion is not understood")
        return self._nested[at]


class Expander:
    """Makes words of the nodes of a text."""

    def __init__(self, home: str, project: str) -> None:
        self.home = home
        self._source = parse("")
        self._inside: list[Command] = []
        """The commands whose output is a part of the word that is read."""
        self._unknown: list[str] = []
        """The variables of unknown value in it."""
        self._usual = _USUAL | {"HOME": home, "CLAUDE_PROJECT_DIR": project, "GITHUB_WORKSPACE": project}

    def _output_of(self, what: Node | str, scope: Scope) -> str:
        """The output of what runs in a subshell, with marks. Its commands are inside the word that is read."""
        raise NotImplementedError

    def _raw(self, node: Node) -> str:
        return self._source.data[node.start_byte : node.end_byte].decode()

    # Variables.

    def assign(self, name: str, value: str, scope: Scope) -> None:
        """The line sets a variable."""
        self._require_plain((name, value))
        scope.variables[name] = value
        scope.odd = scope.odd or self.oddity(name, value)

    def oddity(self, name: str, value: str) -> str:
        """Why the shell may mean something else when it has this variable; empty if it does not."""
        if name == "PATH":
            entries = [entry for entry in value.split(":") if entry.strip(UNKNOWN)]
            odd = not value or any(re.match(r"/tmp|/var/tmp|/dev/shm|\U0010f001[^/]*$", entry) for entry in entries)
            return "The line changes where programs are found." if odd else ""
        return f"The line sets {name}, which changes what programs run." if name in _CHANGE_PROGRAMS and value else ""

    def _require_plain(self, texts: Iterable[str]) -> None:
        """Raises `UnreadableError` for what names a variable, or counts, and then runs a command in an index."""
        if any("[" in text and _INDEX.search(shown(text)) for text in texts):
            raise UnreadableError("a variable may hold a command that arithmetic runs")

    def _assignment(self, node: Node, scope: Scope) -> tuple[str, str]:
        """Returns the name and the value of an assignment."""
        target, sign, *rest = node.children
        name = self._raw(target).partition("[")[0]
        self._scanned(target, target.end_byte, scope, "quoted")
        self._inside, self._unknown = [], []
        if rest and rest[0].type == "array":
            items = self._words_of(rest[0].named_children, scope)
            value = SPLIT.join(word.text for word in items)
            self._inside = [command for word in items for command in word.inside]
        else:
            text = self._expanded(_Text(self._source.data, sign.end_byte, node.end_byte, rest), "word", scope)
            value = shown(":".join(map(self._tilde, text.split(":")))).replace(SPLIT, " ").replace(OPEN, UNKNOWN)
        if sign.type == "+=":
            value = scope.variables.get(name, "") + value
        elif target.type == "subscript":
            value = UNKNOWN
        scope.sources[name] = tuple(self._inside)
        return name, value if len(value) <= LONGEST_VALUE else UNKNOWN

    def _lookup(self, name: str, scope: Scope) -> str | None:
        """The value of a variable; None if it is not known. It may have marks of unknown parts."""
        if name in scope.variables:
            return scope.variables[name]
        if name == "PWD":
            return scope.cwds[0] if len(scope.cwds) == 1 else None
        if name in self._usual or scope.positional is None:
            return self._usual.get(name)
        if name in {"@", "*"}:
            return SPLIT.join(scope.positional)
        if name.isdigit() and name != "0":
            return "".join(scope.positional[int(name) - 1 : int(name)])
        return None

    def _value(self, name: str, scope: Scope, *, quoted: bool) -> str:
        """The value of a variable, with marks."""
        value = self._lookup(name, scope)
        if value is None:
            return self._unknown_value(name, scope, quoted=quoted and name != "@")
        self._inside += scope.sources.get(name, ())
        return self._parted(value if name in {"@", "*"} else value.partition(SPLIT)[0], scope, quoted=quoted)

    def _unknown_value(self, name: str, scope: Scope, *, quoted: bool) -> str:
        self._inside += scope.sources.get(name, ())
        self._unknown.append(name)
        return UNKNOWN if quoted else OPEN

    def _parted(self, value: str, scope: Scope, *, quoted: bool) -> str:
        """A value where it stands: between quotes it stays whole, else the shell makes words of it."""
        if quoted:
            return hidden(value)
        if "IFS" in scope.variables:
            return OPEN
        return re.sub(r"[ \t\n]+", SPLIT, value.replace(UNKNOWN, OPEN))

    # Words.

    def _words_of(self, nodes: Iterable[Node], scope: Scope) -> list[Word]:
        """The words that the shell makes of these nodes. Those without a blank between them are one word."""
        words: list[Word] = []
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and groups[-1][-1].end_byte == node.start_byte:
                groups[-1].append(node)
            else:
                groups.append([node])
        for group in groups:
            first, last = group[0], group[-1]
            if first is last and first.type == "word" and _PLAIN.fullmatch(raw := self._raw(first)):
                words.append(Word(raw))
                continue
            if first.type == "variable_assignment":
                name, value = self._assignment(first, scope)
                words.append(Word(f"{name}={value}", inside=tuple(self._inside), variables=tuple(self._unknown)))
                continue
            self._inside, self._unknown = [], []
            marked = self._expanded(_Text(self._source.data, first.start_byte, last.end_byte, group), "word", scope)
            inside, names = tuple(self._inside), tuple(self._unknown)
            try:
                texts = braces(marked) if "{" in marked else (marked,)
            except ValueError:
                raise UnreadableError("braces make too many words, or are in each other") from None
            for text in texts:
                parts = filter(None, self._tilde(text).split(SPLIT))
                words += [Word(shown(part), _GLOB.search(part) is not None, inside, names) for part in parts]
        return words

    def _tilde(self, text: str) -> str:
        if not text.startswith("~"):
            return text
        user, slash, rest = text[1:].partition("/")
        if user == "+" and unknown(rest):
            return text
        homes = {"": self.home, "+": ".", "-": UNKNOWN, "root": "/root"}
        return homes.get(user, f"/home/{user}") + slash + rest

    def _document(self, name: str, scope: Scope) -> Word:
        """The text of a here-document, as a word."""
        document, self._inside = self._source.documents[name], []
        text = document.body
        if not document.literal:
            data = text.encode()
            text = shown(self._expanded(_Text(data, 0, len(data)), "document", scope))
        return Word(text, inside=tuple(self._inside))

    def _scanned(self, node: Node, end: int, scope: Scope, kind: str) -> None:
        """Run the substitutions in a node that makes no words. Raises `UnreadableError` if it may run something else."""
        self._require_plain([self._expanded(_Text(self._source.data, node.start_byte, end, [node]), kind, scope)])

    def _arithmetic(self, node: Node, scope: Scope) -> None:
        """Count, up to the last part of a node: the variables that it sets are numbers."""
        start, end = node.children[0].end_byte, node.children[-1].start_byte
        self._require_plain([self._expanded(_Text(self._source.data, start, end, node.children), "quoted", scope)])
        for name in _COUNTED.findall(self._source.data, start, end):
            scope.variables[name.decode()] = PLAIN

    def _expanded(self, text: _Text, kind: str, scope: Scope, stop: str = "") -> str:
        """What is left of a text, or of it up to a sign, with marks. Substitutions in it run."""
        quoted = kind in {"quoted", "document"}
        out: list[str] = []
        while text.at < text.end:
            found = _PATTERNS[kind].match(text.data, text.at, text.end)
            if found is None:
                raise UnreadableError("a part of it is not read")
            start, text.at, part = text.at, found.end(), found.lastgroup
            raw = found[part].decode() if part else ""
            if part == "name":
                if scope.positional is None and raw in {"$@", "$*"} and text.data[text.at : text.at + 1].isalnum():
                    raise UnreadableError("a variable may be empty")
                out.append(self._value(raw[1:].strip("{}"), scope, quoted=quoted))
            elif part == "node":
                out.append(self._nested(text, start, scope, quoted=quoted))
            elif stop and raw == stop and part in {"quote", "brace"}:
                return "".join(out)
            elif part == "quote":
                out.append(self._expanded(text, "quoted", scope, '"') + QUOTED)
            elif part in {"single", "ansi"}:
                out.append(hidden(raw if part == "single" else ansi(raw).partition("\0")[0]) + QUOTED)
            else:
                out.append(SPLIT if part == "blank" else hidden(raw) if quoted or part == "escaped" else raw)
        if stop:
            raise UnreadableError("a quote is not closed")
        return "".join(out)

    def _nested(self, text: _Text, start: int, scope: Scope, *, quoted: bool) -> str:
        """What `$(..)`, `${..}` or their like stands for."""
        node = text.node(start)
        if node.type == "expansion":
            value = self._parameter(text, start, scope, quoted=quoted)
            if text.at != node.end_byte:
                raise UnreadableError("an expansion is not understood")
            return value
        text.at = node.end_byte
        if node.type == "arithmetic_expansion":
            self._arithmetic(node, scope)
            return PLAIN
        raw = text.data[start : node.end_byte].decode()
        plain = re.sub(r'\\([`$\\"])' if quoted else r"\\([`$\\])", r"\1", raw[1:-1])
        output = self._output_of(plain if raw[0] == "`" and "\\" in raw else node, scope)
        return self._parted(output, scope, quoted=quoted) if raw[0] in "$`" else "/dev/fd/63"

    def _parameter(self, text: _Text, start: int, scope: Scope, *, quoted: bool) -> str:
        """`${...}`."""
        found = _PARAMETER.match(text.data, start, text.end)
        if found is None:
            raise UnreadableError("an expansion is not understood")
        prefix, name, index, operator = (part.decode() if part else "" for part in found.groups())
        if operator == "@" or prefix == "!":
            raise UnreadableError("an expansion may run a command")
        text.at = found.end()
        operand = self._expanded(text, "quoted" if quoted else "operand", scope, "}")
        if prefix == "#":
            return PLAIN
        if index:
            return self._element(name, index, operator, scope, quoted=quoted)
        if not operator:
            return self._value(name, scope, quoted=quoted)
        if operator[-1] in "-=+?":
            return self._default(name, operator, operand, scope, quoted=quoted)
        value = self._lookup(name, scope)
        if value is not None and not unknown(value + operand):
            if operator[0] not in "%#" or len(value) > LONGEST_EDITED:
                raise UnreadableError("an edit of a variable is not understood")
            return self._parted(edited(value, operator, shown(operand)), scope, quoted=quoted)
        return self._unknown_value(name, scope, quoted=quoted)

    def _default(self, name: str, operator: str, operand: str, scope: Scope, *, quoted: bool) -> str:
        """`${name:-operand}` and its like."""
        value, kind = self._lookup(name, scope), operator[-1]
        if value is None and SPLIT in operand and kind != "?":
            raise UnreadableError("a variable may be several words")
        if value is None:
            return DEFENDED if kind == "?" else self._unknown_value(name, scope, quoted=quoted)
        is_set = bool(value) or operator[0] != ":"
        if kind == "+":
            return operand if is_set else ""
        if is_set or kind == "?":
            return self._value(name, scope, quoted=quoted)
        if kind == "=":
            scope.variables[name] = shown(operand)
        return operand

    def _element(self, name: str, index: str, operator: str, scope: Scope, *, quoted: bool) -> str:
        """`${name[index]}`."""
        if name not in scope.variables or operator:
            return self._unknown_value(name, scope, quoted=quoted and index != "[@]")
        if index not in {"[@]", "[*]"}:
            raise UnreadableError("an item of an array is not understood")
        self._inside += scope.sources.get(name, ())
        items = scope.variables[name]
        return SPLIT.join(hidden(item) + QUOTED for item in items.split(SPLIT) if items)
