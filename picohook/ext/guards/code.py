"""Code in other languages that a line runs, as far as its literals go: Python by its syntax tree, others by their calls.

`calls.toml` says what calls do.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .effects import Effects

MOST = 60_000
"""The longest code that is read, in characters."""
_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")
_ENVIRONMENT = re.compile(
    r"os\.environ(?!\s*(?:\.get|\.setdefault|\.pop|\.update|\[|\.copy))|process\.env(?![\w.\[])|%ENV\b|\bENV\.(?:to_h|each|inspect)|getenv\(\)|\$_ENV\b"
)
_SECRET_VARIABLE = re.compile(
    r"(?:environ(?:\.get\(|\[)|getenv\()\s*['\"](?:\w*_)?(?:TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET_\w+)\w*['\"]"
    r"|(?:console\.log\(|^\s*)process\.env\.\w*(?:TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY)\w*"
)
_REQUESTS = re.compile(
    r"\bfetch\(|https?\.request\(|axios|\.post\(|Net::HTTP|LWP|curl_(?:exec|setopt)|file_get_contents\(\s*['\"]https?|HTTP::Tiny|net\.(?:connect|createConnection)|open-uri|[Ss]ocket"
)
_HOME = re.compile(r"^~(?=/|$)|\$HOME|\$\{HOME\}")
_BARE = {
    "perl": {"system", "exec", "unlink", "rmtree", "remove_tree"},
    "ruby": {"system", "exec"},
}
"""Functions that need no parentheses."""
_MARKS = str.maketrans(
    {UNKNOWN: "PICOHOOK_UNKNOWN", OPEN: "PICOHOOK_UNKNOWN", DEFENDED: "PICOHOOK_UNKNOWN", PLAIN: "x"}
)
_SED_COMMAND = r"(?:^|[;{}\n]|[\d$/]\s*)"


@functools.cache
def _calls(table: str, form: str = "{}") -> re.Pattern[str]:
    """The pattern of names of calls; each kind is a group of it."""
    kinds = tomllib.loads(Path(__file__).with_name("calls.toml").read_text(encoding="utf-8"))[table]
    names = "|".join(f"(?P<{kind.replace('-', '_')}>{names})" for kind, names in kinds.items())
    return re.compile(form.replace("{}", names), re.DOTALL)


def note(started: Effects, language: str, text: str) -> None:
    """Note what code does that a command runs."""
    command, reading = started.command, started.reading
    if unknown(text):
        text = text.translate(_MARKS)
        if "PICOHOOK_UNKNOWN" in text and not re.search(r"['\"][^'\"\n]*PICOHOOK_UNKNOWN[^'\"\n]*['\"]", text):
            reading.doubt(f"A part of the code that `{command.name}` runs is not known.", command)
    if len(text) > MOST:
        reading.doubt(f"The code that `{command.name}` runs is too long to be read.", command)
    elif language == "awk":
        _awk(started, text)
    elif language == "sed":
        _sed(started, text)
    elif language == "python":
        _Python(started, language).read(text)
    else:
        _Other(started, language).read(text)


class _Code:
    """Notes what calls do."""

    def __init__(self, started: Effects, language: str) -> None:
        self.started, self.language = started, language
        self.asks_network = False

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
        elif kind == "code" and text is not None and not unknown(text):
            note(started, self.language, text)
        elif kind == "code":
            self.doubt("runs code that is not known")
        elif text is not None and not unknown(text):  # a program that edits files is too usual to ask about
            started.act(kind, text)

    def doubt(self, why: str) -> None:
        """The code may do harm that is not known."""
        self.started.reading.doubt(f"The code of `{self.started.command.name}` {why}.", self.started.command)

    def whole(self, text: str) -> None:
        """Note what the text says wherever it stands."""
        if _ENVIRONMENT.search(text):
            self.started.bare("environment")

    def strings(self, texts: Iterable[str]) -> None:
        """Literals that may be names of files, or URLs."""
        for text in dict.fromkeys(texts):
            if not text or len(text) > 300 or "\n" in text or " " in text.strip():
                continue
            if re.match(r"https?://", text):
                if self.asks_network:
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
            _Other(self.started, "python").read(text)  # another version's syntax, or none
            return
        self.values: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        for node in nodes:
            self.learn(node)
        self.asks_network = bool(re.search(r"requests|urllib|httpx|aiohttp|socket|http\.client|urlopen", text))
        self.strings(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        calls = [(self.dotted(node.func), node) for node in nodes if isinstance(node, ast.Call)]
        dotted = {name for name, _ in calls}
        if dotted & {"os.dup2", "pty.spawn"} and any("socket" in name or name.endswith(".connect") for name in dotted):
            self.started.bare("reverse-shell")
        self.whole(text)
        for name, node in calls:
            try:
                if found := _calls("python").fullmatch(name):
                    self.call(str(found.lastgroup).replace("_", "-"), name, node)
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
        first = (
            node.args[0] if node.args else next((given[one] for one in ("args", "cmd", "path") if one in given), None)
        )
        on = node.func.value if isinstance(node.func, ast.Attribute) else None
        source = ast.unparse(node)
        if kind == "process":
            self.process(
                first, shell=ast.unparse(given["shell"]) not in {"False", "0", "None"} if "shell" in given else False
            )
        elif kind == "exec":
            self.does("program", None, [self.literal(first)])
        elif kind == "on-delete":
            self.does("delete", self.literal(on))
        elif kind in {"open", "on-open"}:
            of_module = isinstance(on, ast.Name) and on.id in self.names
            arguments = [first, *node.args[1:]] if kind == "open" or of_module else [on, *node.args]
            written = name.rpartition(".")[2].startswith("write")
            mode = "w" if written else self.literal(arguments[1] if len(arguments) > 1 else given.get("mode")) or ""
            self.does(
                "append" if "a" in mode else "write" if set(mode) & set("wx") else "read", self.literal(arguments[0])
            )
        elif kind == "print":
            if found := _SECRET_VARIABLE.search(source):
                self.started.bare("environment", found[0])
        elif kind == "named-otherwise":
            if len(node.args) > 1 and self.dotted(node.args[0]) in {"os", "subprocess", "shutil", "builtins"}:
                self.doubt("calls a function whose name is not known")
        elif kind == "unknown":
            self.doubt("calls a function of a module that is not known")
        elif kind == "move":
            if (target := self.literal(next(iter(node.args[1:]), None))) is not None:
                self.started.act("write", target, "move")
        elif kind in {"send", "connect", "request"}:
            self.network(first, sends=kind == "send" or (kind == "request" and len(node.args) + len(given) > 1))
        elif kind != "code" or not (name == "compile" and "open(" in source):
            self.does(kind, self.literal(first))

    def process(self, first: ast.expr | None, *, shell: bool) -> None:
        """`subprocess.run(...)`."""
        if isinstance(first, ast.Call) and self.dotted(first.func) == "shlex.split":
            first, shell = next(iter(first.args), None), True
        elif isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "split":
            first, shell = first.func.value, True
        if isinstance(first, ast.List | ast.Tuple):
            words = [self.literal(item) for item in first.elts]
            if first.elts and self.dotted(first.elts[0]) == "sys.executable":
                words[0] = "python3"
            if shell:
                self.does("shell", next(iter(words), None))
            else:
                self.does("program", None, words)
        else:
            text = self.literal(first)
            self.does("shell" if shell or text is None else "program", text, [text])

    def network(self, first: ast.expr | None, *, sends: bool) -> None:
        """A request, or a socket."""
        if isinstance(first, ast.Tuple) and first.elts:
            first = first.elts[0]
        host = self.literal(first)
        if first is not None and _SECRET_VARIABLE.search(ast.unparse(first)):
            self.started.bare("environment", "an address")
        if host is not None and ("." in host or host == "localhost"):
            self.started.host("send" if sends else "connect", host, "code")
        if sends:
            self.started.bare("code-sends")


class _Other(_Code):
    def read(self, text: str) -> None:
        """Note what code of another language does, by the names of calls."""
        started, language = self.started, self.language
        plain = re.sub(r"^\s*(?:#|//).*$", "", text, flags=re.MULTILINE)
        self.asks_network = bool(_REQUESTS.search(plain))
        self.strings(a or b for a, b in _STRING.findall(plain))
        if self.asks_network and re.search(r"POST|post\(|body|method|write\(|send|query|\?\w+=", plain):
            started.bare("code-sends")
        if found := _SECRET_VARIABLE.search(plain):
            started.bare("environment", found[0])
        self.whole(plain)
        if language == "perl" and re.search(r"\beval\s*\(?\s*(?:pack|\$|join|decode|reverse|unpack)", plain):
            self.doubt("runs code that is not known")
        connects, runs = r"(?i)sock", r"exec|STDIN|/bin/(?:ba)?sh|proc_open|popen|system"
        if language == "node":
            connects, runs = r"net\.(?:connect|Socket|createConnection)", "child_process"
        if language in {"perl", "ruby", "php", "lua", "node"} and re.search(connects, plain) and re.search(runs, plain):
            started.bare("reverse-shell")
        if language in {"perl", "ruby", "php", "lua"}:
            for run in re.findall(
                r"`([^`]*)`|\bqx[({/|](.*?)[)}/|]|%x[({\[](.*?)[)}\]]"
                r"|\bopen\s*\(?[^,]*,\s*[\"'](?:\|\s*([^\"']+)|([^\"'|]+)\|)[\"']",
                plain,
            ):
                self.does("shell", next(filter(None, run), ""))
        form = (
            r"\b(?P<name>{})\b\s*(?P<open_>\(?)\s*(?P<argument>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`"
            r"|\[[^\]]*\]|[^\s,;)\]]+)?(?P<rest>[^;\n]{0,200})"
        )
        for found in _calls("others", form).finditer(plain):
            kind = next(kind for kind, name in found.groupdict().items() if name and kind not in _PARTS)
            self.call(kind.replace("_", "-"), found)

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
        if name == "delete" and not (method and "File.delete" in found.string):
            return
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


_PARTS = {"name", "open_", "argument", "rest"}


def _awk(started: Effects, text: str) -> None:
    """Note what an awk program runs and writes."""
    text_of = r"\"((?:[^\"\\]|\\.)*)\""
    for quoted, other in re.findall(rf"system\s*\(\s*(?:{text_of}\s*\)|([^)]*))", text):
        started.shell(Word(quoted.replace('\\"', '"') if quoted else UNKNOWN if other else ""))
    for run in re.findall(rf"{text_of}\s*\|&?\s*getline", text) + re.findall(rf"print[^|\n;}}]*\|&?\s*{text_of}", text):
        started.shell(Word(run.replace('\\"', '"')))
    if re.search(r"[\w)\]]\s*\|&?\s*getline|\bprint[^|\"}]*\|\s*[a-z]\w*\s*[;}]", text):
        started.reading.doubt("`awk` runs a text that is not known.", started.command)
    for sign, path in re.findall(r"print[^;}\n]*?(>>?)\s*\"([^\"]+)\"", text):
        started.act("append" if sign == ">>" else "write", path)


def _sed(started: Effects, text: str) -> None:
    """Note what a sed script runs and writes."""
    substitutes = re.match(r"s(.).*\1.*\1[gpiIm0-9]*$", text, re.DOTALL)
    if re.search(rf"{_SED_COMMAND}e(?:\s+\S|\s*$)", text) and not substitutes:
        run = re.search(r"e\s+(.+)$", text)
        started.shell(Word(run[1] if run else UNKNOWN))
    form = rf"{_SED_COMMAND}s([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1([a-zA-Z0-9]*)(?:\s+(\S+))?"
    for found in re.finditer(form, text, re.DOTALL):
        if "e" in found[4]:
            started.shell(Word(found[3] if not found[2].strip(".*^$") else UNKNOWN))
        if "w" in found[4] and found[5]:
            started.act("write", found[5])
    for path in re.findall(rf"{_SED_COMMAND}[wW]\s+([^;\n]+)", text):
        if not re.match(r"s(.)", text):
            started.act("write", path.strip())


def _unescaped(text: str) -> str:
    """The value of a literal in JavaScript, Perl or Ruby."""

    def one(found: re.Match[str]) -> str:
        code = found[2] or found[3]
        return chr(int(code, 16)) if code else {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])

    return re.sub(r"\\(x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", one, text, flags=re.DOTALL)
