"""Code in other languages that a line runs, as far as its literals go: Python by its syntax tree, others by their calls.

`calls.toml` says what calls do.
"""

import ast
import functools
import re
import textwrap
import warnings
from collections.abc import Iterable, Sequence

from .effects import Effects
from .names import data
from .words import DEFENDED, OPEN, UNKNOWN, Word, ansi, unknown

_TEMPORARY = "/tmp/python"
"""Stands for what `tempfile` makes."""
MOST = 60_000
"""The longest code that is read, in characters."""
_DATA = data("calls")
_MODULES = frozenset(("os", "subprocess", "shutil", "builtins"))
_SMALL = frozenset(("awk", "sed"))
_MAGIC = re.compile(r"^[!%].*$", re.MULTILINE)
"""Lines of notebooks that are no Python."""
_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")
_QUOTED = re.compile(f"['\"][^'\"\n]*[{UNKNOWN}{OPEN}{DEFENDED}][^'\"\n]*['\"]")
"""A part that is not known, in a literal."""
_HOME = re.compile(r"^~(?=/|$)|\$HOME|\$\{HOME\}")
_CALL = (
    r"\b(?P<name>{})\b\s*(?P<open_>\(?)\s*(?P<argument>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`"
    r"|\[[^\]]*\]|[^\s,;)\]]+)?(?P<rest>[^;\n]{0,200})"
)


@functools.cache
def _calls(table: str) -> re.Pattern[str]:
    """The pattern of the names of calls. Each kind is a group of it."""
    kinds = "|".join(f"(?P<{kind.replace('-', '_')}>{names})" for kind, names in _DATA[table].items())
    return re.compile(_CALL.replace("{}", kinds) if table == "others" else kinds, re.DOTALL)


def _kind(table: str, name: str) -> str:
    """The kind of a call of this name; empty if it has none."""
    found = _calls(table).fullmatch(name)
    return str(found.lastgroup).replace("_", "-") if found else ""


def note(started: Effects, language: str, text: str) -> None:
    """Note what code does that a command runs."""
    command, reading = started.command, started.reading
    if unknown(text) and language not in _SMALL and unknown(_QUOTED.sub("", text)):
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
        started, word = self.started, Word(UNKNOWN if text is None else text)
        if kind == "shell":
            started.shell(word)
        elif kind == "program" and words:
            made = [Word(UNKNOWN if one is None else one) for one in words]
            started.reader.execute(made, started.inner(feed=None))
        elif kind in {"delete", "delete-tree"}:
            started.act(kind, Word(word.text, "*" in word.text))
        elif kind in {"environment", "reverse-shell", "code-sends"}:
            started.bare(kind, text or "")
        elif kind == "code" and word.known:
            note(started, self.language, word.text)
        elif kind in {"code", "doubt", "named-otherwise"}:
            self.doubt("runs something that is not known")
        elif word.known:  # a program that edits files is too usual to ask about
            started.act(kind, word)

    def doubt(self, why: str) -> None:
        """The code may do harm that is not known."""
        self.started.reading.doubt(f"The code of `{self.started.command.name}` {why}.", self.started.command)

    def texts(self, text: str) -> None:
        """Note what counts wherever it stands."""
        for row in _DATA["text"]:
            meant = self.language in row["of"] if "of" in row else self.language not in _SMALL
            if meant and not ("unless" in row and re.match(row["unless"], text)):
                for found in re.finditer(row["match"], text):
                    argument = found.groupdict().get("text")
                    self.does(row["does"], argument and ansi(argument.strip(), other=""))

    def strings(self, texts: Iterable[str], *, asks_network: bool) -> None:
        """Literals that may be names of files, or URLs."""
        for text in dict.fromkeys(texts):
            if not text or len(text) > 300 or "\n" in text or " " in text.strip():
                continue
            if asks_network and re.match(r"https?://", text):
                self.started.host("connect", text, "literal")
            elif re.search(r"^~|[/.]", text) and re.search(r"[\w~.]", text) and "://" not in text:
                self.started.act("mention", Word(self.home(text)))

    def home(self, text: str) -> str:
        """The text with the user's home directory in place of a tilde or a variable at its start."""
        return _HOME.sub(lambda _: self.started.reader.home, text)


class _Python(_Code):
    def read(self, text: str) -> None:
        """Note what Python code does."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the text, which nobody here wrote
                nodes = list(ast.walk(self._parsed(textwrap.dedent(text))))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            _Other(self.started, "python2").read(text)  # another version's syntax, or none
            return
        self.values: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        for node in nodes:
            self.learn(node)
        joined = [node for node in nodes if isinstance(node, ast.JoinedStr) and "://" in (self.literal(node) or "")]
        of_urls = {part for node in joined for part in node.values}
        texts = [node for node in nodes if isinstance(node, ast.Constant) and node not in of_urls]
        strings = [node.value for node in texts if isinstance(node.value, str)]
        self.strings(strings, asks_network=re.search(_DATA["network"]["python"], text) is not None)
        self.texts(text)
        try:
            for node in nodes:
                if isinstance(node, ast.Call) and (kind := _kind("python", self.dotted(node.func))):
                    self.call(kind, node)
        except RecursionError:
            self.doubt("is too deep to be read")

    def _parsed(self, text: str) -> ast.Module:
        try:
            return ast.parse(text)
        except SyntaxError:
            made = ast.parse(_MAGIC.sub("", text))
            _Other(self.started, "python2").read("\n".join(_MAGIC.findall(text)))
            return made

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
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            self.values[node.optional_vars.id] = self.literal(node.context_expr)

    def dotted(self, node: ast.expr) -> str:
        """The dotted name of what is called, with imports resolved; the last names alone if the first is not a name."""
        if isinstance(node, ast.Attribute):
            return f"{self.dotted(node.value)}.{node.attr}"
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        inner = self.dotted(node.func) if isinstance(node, ast.Call) else "?"
        if isinstance(node, ast.Call) and inner in {"__import__", "importlib.import_module"} and node.args:
            return self.literal(node.args[0]) or "?"
        return inner

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
        if isinstance(node, ast.Subscript) and self.dotted(node.value) == "os.environ":
            return self.started.reader.home if self.literal(node.slice) == "HOME" else None
        if isinstance(node, ast.Attribute) and node.attr == "name":
            return _TEMPORARY if self.literal(node.value) == _TEMPORARY else None
        return "python3" if isinstance(node, ast.Attribute) and self.dotted(node) == "sys.executable" else None

    def result(self, node: ast.Call) -> str | None:
        """The text that a call gives; None if it is not known."""
        kind = _kind("values", self.dotted(node.func))
        on = [node.func.value] if isinstance(node.func, ast.Attribute) and not node.args else []
        values = [self.literal(argument) for argument in node.args or on]
        first = values[0] if values else None
        if kind == "variable":
            kind = "home" if first == "HOME" else ""
        if kind == "path":
            return first if node.args else "."
        if kind == "same":
            return None if first is None else self.home(first)
        if kind == "joined":
            return None if None in values else "/".join(filter(None, values))
        here, home = self.started.scope.cwds[0], self.started.reader.home
        return {"home": home, "here": here, "temporary": _TEMPORARY}.get(kind)

    def call(self, kind: str, node: ast.Call) -> None:
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
            shell = "shell" in given and ast.unparse(given["shell"]) not in {"False", "0", "None"}
            items = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            words = [self.literal(item) for item in items]
            self.does("shell" if shell or words == [None] else "program", next(iter(words), None), words)
        elif kind == "open":
            mode = self.literal(second or given.get("mode")) or ""
            self.does("append" if "a" in mode else "write" if set(mode) & set("wx") else "read", text)
        elif kind == "move":
            self.started.act("write", Word(self.literal(second) or ""), "move")
        elif kind in {"send", "connect", "request"}:
            self.network(first, sends=kind == "send" or (kind == "request" and len(arguments) + len(given) > 1))
        elif kind != "named-otherwise" or (first and second and self.dotted(first) in _MODULES):
            self.does(kind, text, [text])

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
        plain = re.sub(r"^\s*(?:#|//).*$", "", text, flags=re.MULTILINE)
        asks_network = re.search(_DATA["network"]["others"], plain) is not None
        self.strings((a or b for a, b in _STRING.findall(plain)), asks_network=asks_network)
        if asks_network and re.search(_DATA["network"]["sends"], plain):
            self.started.bare("code-sends")
        self.texts(plain)
        for found in _calls("others").finditer(plain):
            self.call(next(kind for kind in _DATA["others"] if found[kind.replace("-", "_")]), found)

    def call(self, kind: str, found: re.Match[str]) -> None:
        """Note what one call does."""
        name, argument, rest = found["name"], found["argument"] or "", found["rest"]
        language, code = self.language, found.string
        is_method = code[max(found.start() - 1, 0) : found.start()] == "."
        if not found["open_"] and name not in _DATA["bare"].get(language, ()) and not name.startswith("do "):
            return
        if name == "exec" and (language == "lua" or (is_method and language == "node" and "child_process" not in code)):
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
        return self.home(ansi(value, other=""))
