"""Code in other languages that a line runs, as far as its literals go: Python by its syntax tree, others by their calls.

`calls.toml` says what calls do.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
import warnings
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator

from .names import data
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .effects import Effects

MOST = 60_000
"""The longest code that is read, in characters."""
_MODULES = frozenset(("os", "subprocess", "shutil", "builtins"))
_SMALL = frozenset(("awk", "sed"))
_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")
_HOME = re.compile(r"^~(?=/|$)|\$HOME|\$\{HOME\}")
_BARE = {"perl": {"system", "exec", "unlink", "rmtree", "remove_tree"}, "ruby": {"system", "exec"}}
"""Functions that need no parentheses."""
_MARKS = str.maketrans(
    {UNKNOWN: "PICOHOOK_UNKNOWN", OPEN: "PICOHOOK_UNKNOWN", DEFENDED: "PICOHOOK_UNKNOWN", PLAIN: "x"}
)
_CALL = (
    r"\b(?P<name>{})\b\s*(?P<open_>\(?)\s*(?P<argument>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`"
    r"|\[[^\]]*\]|[^\s,;)\]]+)?(?P<rest>[^;\n]{0,200})"
)


def _of_kinds(table: dict[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind.replace('-', '_')}>{names})" for kind, names in table.items()))


Kinds = Annotated[re.Pattern[str], BeforeValidator(_of_kinds)]
"""A pattern of names. Each kind is a group of it."""


class _Text(BaseModel):
    """What counts wherever it stands in code."""

    of: frozenset[str] = frozenset()
    does: str
    match: re.Pattern[str]
    unless: re.Pattern[str] | None = None


class _Table(BaseModel):
    """`calls.toml`."""

    python: Kinds
    others: Kinds
    text: tuple[_Text, ...]
    network: dict[str, re.Pattern[str]]


@functools.cache
def _table() -> tuple[_Table, re.Pattern[str]]:
    """The table, and the pattern of calls in other languages than Python."""
    made = _Table.model_validate(data("calls"))
    return made, re.compile(_CALL.replace("{}", made.others.pattern), re.DOTALL)


def note(started: Effects, language: str, text: str) -> None:
    """Note what code does that a command runs."""
    command, reading = started.command, started.reading
    if unknown(text) and language not in _SMALL:
        text = text.translate(_MARKS)
        if "PICOHOOK_UNKNOWN" in text and not re.search(r"['\"][^'\"\n]*PICOHOOK_UNKNOWN[^'\"\n]*['\"]", text):
            reading.doubt(f"A part of the code that `{command.name}` runs is not known.", command)
    if len(text) > MOST:
        reading.doubt(f"The code that `{command.name}` runs is too long to be read.", command)
    elif language in _SMALL:
        _Code(started, language).texts(text)
    else:
        (_Python if language == "python" else _Other)(started, language).read(text)


class _Code:
    """Notes what calls do."""

    def __init__(self, started: Effects, language: str) -> None:
        self.started, self.language = started, language

    def does(self, kind: str, text: str | None, words: Sequence[str | None] = ()) -> None:
        """A call of this kind has this argument, which is None if it is not known, or starts these words."""
        started = self.started
        if kind == "shell":
            started.shell(Word(UNKNOWN if text is None else text))
        elif kind == "program" and words:
            scope = started.inner()
            scope.feed = None
            started.reader.execute([Word(UNKNOWN if word is None else word) for word in words], scope)
        elif kind in {"delete", "delete-tree"}:
            started.act(kind, Word(UNKNOWN) if text is None else Word(text, "*" in text))
        elif kind in {"environment", "reverse-shell", "code-sends"}:
            started.bare(kind, text or "")
        elif kind == "code" and text is not None and not unknown(text):
            note(started, self.language, text)
        elif kind in {"code", "doubt", "named-otherwise"}:
            self.doubt("runs something that is not known")
        elif text is not None and not unknown(text):  # a program that edits files is too usual to ask about
            started.act(kind, text)

    def doubt(self, why: str) -> None:
        """The code may do harm that is not known."""
        self.started.reading.doubt(f"The code of `{self.started.command.name}` {why}.", self.started.command)

    def texts(self, text: str) -> None:
        """Note what counts wherever it stands."""
        for pattern in _table()[0].text:
            meant = self.language in pattern.of if pattern.of else self.language not in _SMALL
            if meant and not (pattern.unless and pattern.unless.match(text)):
                for found in pattern.match.finditer(text):
                    argument = found.groupdict().get("text")
                    self.does(pattern.does, argument and _unescaped(argument.strip()))

    def strings(self, texts: Iterable[str], *, asks_network: bool) -> None:
        """Literals that may be names of files, or URLs."""
        for text in dict.fromkeys(texts):
            if not text or len(text) > 300 or "\n" in text or " " in text.strip():
                continue
            if re.match(r"https?://", text):
                if asks_network:
                    self.started.host("connect", text, "literal")
            elif ("/" in text or "." in text or text[0] == "~") and re.search(r"[\w~.]", text) and "://" not in text:
                self.started.act("mention", self.home(text))

    def home(self, text: str) -> str:
        """The text with the user's home directory in place of a tilde or a variable at its start."""
        return _HOME.sub(lambda _: self.started.reader.home, text)


class _Python(_Code):
    def read(self, text: str) -> None:
        """Note what Python code does."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the text, which nobody here wrote
                nodes = list(ast.walk(ast.parse(textwrap.dedent(text))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            _Other(self.started, "python2").read(text)  # another version's syntax, or none
            return
        self.values: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        for node in nodes:
            self.learn(node)
        table = _table()[0]
        strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        self.strings(strings, asks_network=table.network["python"].search(text) is not None)
        self.texts(text)
        try:
            for node in nodes:
                if isinstance(node, ast.Call) and (found := table.python.fullmatch(self.dotted(node.func))):
                    self.call(str(found.lastgroup).replace("_", "-"), found[0], node)
        except RecursionError:
            self.doubt("is too deep to be read")

    def learn(self, node: ast.AST) -> None:
        """Keep what a statement says about names."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.names[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            self.names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, self.literal(node.value)
            self.values[name] = value if self.values.get(name, value) == value else None
            if isinstance(node.value, ast.Attribute | ast.Name):
                self.names.setdefault(name, self.dotted(node.value))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            values = node.iter.elts if isinstance(node.iter, ast.List | ast.Tuple) else []
            self.values[node.target.id] = self.literal(values[0]) if len(values) == 1 else None

    def dotted(self, node: ast.expr) -> str:
        """The dotted name of what is called, with imports resolved; the last names alone if the first is not a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(self.names.get(node.id, node.id))
        elif isinstance(node, ast.Call):
            inner = self.dotted(node.func)
            imports = inner in {"__import__", "importlib.import_module"} and node.args
            parts.append((self.literal(node.args[0]) or "?") if imports else inner)
        else:
            parts.append("?")
        return ".".join(reversed(parts))

    def literal(self, node: ast.expr | None) -> str | None:
        """The text that an expression gives; None if it is not known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.JoinedStr):
            parts = [self.literal(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
            return "".join(UNKNOWN if part is None else part for part in parts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            left, right = self.literal(node.left), self.literal(node.right)
            if left is None or right is None:
                return None
            return left + right if isinstance(node.op, ast.Add) else f"{left.rstrip('/')}/{right}"
        if isinstance(node, ast.Call):
            return self.result(node)
        if isinstance(node, ast.Subscript):
            name, index = self.dotted(node.value), ast.unparse(node.slice)
            if name == "sys.argv" and index.isdigit():
                operands = [word.text for word in self.started.command.operands]
                return next(iter(operands[int(index) - 1 :]), None) if index != "0" else None
            return self.started.reader.home if name == "os.environ" and index == "'HOME'" else None
        return None

    def result(self, node: ast.Call) -> str | None:
        """The text that a call gives; None if it is not known."""
        name = self.dotted(node.func)
        values = [self.literal(argument) for argument in node.args]
        if not node.args and isinstance(node.func, ast.Attribute):
            values = [self.literal(node.func.value)]
        first = values[0] if values else None
        last = name.rpartition(".")[2]
        if last in {"expanduser", "expandvars", "abspath", "realpath"}:
            return None if first is None else self.home(first)
        if last in {"Path", "PurePath", "fspath"} or name == "str":
            return first if node.args else "."
        if name in {"pathlib.Path.home", "Path.home"} or (name in {"os.environ.get", "os.getenv"} and first == "HOME"):
            return self.started.reader.home
        if last in {"getcwd", "cwd"}:
            return self.started.scope.cwds[0]
        if name == "os.path.join":
            return None if None in values else "/".join(filter(None, values))
        return {"tempfile.mkdtemp": "/tmp/python", "tempfile.gettempdir": "/tmp"}.get(name)

    def call(self, kind: str, name: str, node: ast.Call) -> None:
        """Note what one call does."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        arguments = [*node.args, *(given[one] for one in ("args", "cmd", "path") if one in given)]
        on = node.func.value if isinstance(node.func, ast.Attribute) else None
        if kind.startswith("on-") and on and not (isinstance(on, ast.Name) and on.id in self.names):
            arguments = [on, *arguments]
        kind, first = kind.removeprefix("on-"), next(iter(arguments), None)
        second = arguments[1] if len(arguments) > 1 else None
        text = self.literal(first)
        if kind == "process":
            self.process(first, shell="shell" in given and ast.unparse(given["shell"]) not in {"False", "0", "None"})
        elif kind == "open":
            mode = (
                "w" if name.rpartition(".")[2].startswith("write") else self.literal(second or given.get("mode")) or ""
            )
            self.does("append" if "a" in mode else "write" if set(mode) & set("wx") else "read", text)
        elif kind == "move":
            self.started.act("write", self.literal(second) or "", "move")
        elif kind in {"send", "connect", "request"}:
            self.network(first, sends=kind == "send" or (kind == "request" and len(arguments) + len(given) > 1))
        elif kind != "named-otherwise" or (first and second and self.dotted(first) in _MODULES):
            self.does(kind, text, [text])

    def process(self, first: ast.expr | None, *, shell: bool) -> None:
        """`subprocess.run(...)`."""
        if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "split":
            shlex = self.dotted(first.func) == "shlex.split"
            first, shell = next(iter(first.args), None) if shlex else first.func.value, True
        words = [self.literal(first)]
        if isinstance(first, ast.List | ast.Tuple):
            words = [self.literal(item) for item in first.elts]
            if first.elts and self.dotted(first.elts[0]) == "sys.executable":
                words[0] = "python3"
        elif words == [None]:
            shell = True
        self.does("shell" if shell else "program", next(iter(words), None), words)

    def network(self, first: ast.expr | None, *, sends: bool) -> None:
        """A request, or a socket."""
        host = self.literal(first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first)
        if host is not None and ("." in host or host == "localhost"):
            self.started.host("send" if sends else "connect", host, "code")
        if sends:
            self.started.bare("code-sends")


class _Other(_Code):
    def read(self, text: str) -> None:
        """Note what code of another language does, by the names of calls."""
        table, calls = _table()
        plain = re.sub(r"^\s*(?:#|//).*$", "", text, flags=re.MULTILINE)
        asks_network = table.network["others"].search(plain) is not None
        self.strings((a or b for a, b in _STRING.findall(plain)), asks_network=asks_network)
        if asks_network and table.network["sends"].search(plain):
            self.started.bare("code-sends")
        self.texts(plain)
        for found in calls.finditer(plain):
            self.call(next(kind for kind in table.others.groupindex if found[kind]).replace("_", "-"), found)

    def call(self, kind: str, found: re.Match[str]) -> None:
        """Note what one call does."""
        name, argument, rest = found["name"], found["argument"] or "", found["rest"]
        language, method = self.language, found.string[max(found.start() - 1, 0) : found.start()] == "."
        if not found["open_"] and name not in _BARE.get(language, ()) and not name.startswith("do "):
            return
        if name == "exec" and (
            language == "lua" or (method and language == "node" and "child_process" not in found.string)
        ):
            return  # a regular expression's
        value, strings = self.value(argument), [a or b for a, b in _STRING.findall(argument + rest)]
        if kind == "code" and (argument[:1] in {"", "{", "["} or language not in {"node", "php", "perl", "ruby"}):
            return  # another meaning of the name
        if kind in {"shell", "program"}:
            listed = kind == "program" or (language in {"perl", "ruby"} and "," in rest[:2])
            self.does("program" if listed and strings else "shell", value, strings)
        elif kind == "tree":
            self.does("delete-tree" if "recursive" in rest else "delete", value)
        elif kind == "delete" and re.match(r"glob|<", argument) and strings:
            self.does(kind, self.home(strings[0]))
        elif kind != "read" or "://" not in (value or ""):
            self.does(kind, value)

    def value(self, argument: str) -> str | None:
        """The value of a literal; None if it is none."""
        if argument[:1] not in {'"', "'", "`"}:
            return None
        value = argument[1:-1]
        if "${" in value or "#{" in value or (argument[0] == '"' and self.language in {"perl", "php"} and "$" in value):
            value = re.sub(r"[$#]\{[^}]*\}|\$\w+", UNKNOWN, value)
        return self.home(_unescaped(value))


def _unescaped(text: str) -> str:
    """The value of a literal in JavaScript, Perl or Ruby."""

    def one(found: re.Match[str]) -> str:
        code = found[2] or found[3]
        return chr(int(code, 16)) if code else {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])

    return re.sub(r"\\(x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", one, text, flags=re.DOTALL)
