"""Code in other languages that a line runs, as far as its literals go: Python by its syntax tree, others by their calls."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import TYPE_CHECKING, Protocol

from . import effects
from .names import listed
from .rows import USUAL
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .call_files import CallFiles
    from .reader import Reader, Scope
    from .reading import Command

MOST = 60_000
"""The longest code that is read, in characters."""
_SHELLS = listed("shells")
_PROCESSES = listed("processes")
_EXECS = listed("execs")
_TREES = frozenset(["shutil.rmtree", "os.removedirs", "send2trash"])
_DELETES = frozenset(["os.remove", "os.unlink", "os.rmdir", "pathlib.Path.unlink"])
_SENDERS = re.compile(
    r"(?:requests|httpx|session|client|aiohttp|urllib3?)[\w.]*\.(?:post|put|patch|request)|urllib\.request\.(?:urlopen|Request)|[\w.]*\.(?:sendall|sendto|send|storbinary)"
)
_GETTERS = re.compile(
    r"(?:requests|httpx|session|client)[\w.]*\.(?:get|head)|urllib\.request\.urlretrieve|[\w.]*\.connect(?:_ex)?|socket\.create_connection"
)
_CALL = re.compile(
    r"(?P<name>\b(?:system|execute|exec|execSync|execFile|execFileSync|spawn|spawnSync|shell_exec|passthru|popen|proc_open|pcntl_exec|capture2e?|pipeline"
    r"|rmSync|rmdirSync|rmdir|rm|rimraf|removeSync|rm_rf|rm_r|rmtree|remove_tree|remove_entry_secure|unlink|unlinkSync|delete|truncateSync"
    r"|writeFileSync|writeFile|file_put_contents|appendFileSync|readFileSync|readFile|file_get_contents|eval|Function|instance_eval|doShellScript)\b|\bdo\s+shell\s+script)"
    r"\s*(?P<open>\(?)\s*(?P<argument>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|\[[^\]]*\]|[^\s,;)\]]+)?(?P<rest>[^;\n]{0,200})",
    re.DOTALL,
)
_RUN = listed("run")
_BARE = {"system", "exec", "unlink", "rmtree", "remove_tree"}
_TREE = listed("tree")
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


class Runs(Protocol):
    """What follows the commands that code runs: `Programs`."""

    files: CallFiles

    def text(self, reader: Reader, command: Command, word: Word, scope: Scope) -> None:
        """A shell text runs."""

    def inner(self, scope: Scope, command: Command) -> Scope:
        """The scope of a command that this one starts."""


_MARKS = {
    ord(UNKNOWN): "PICOHOOK_UNKNOWN",
    ord(OPEN): "PICOHOOK_UNKNOWN",
    ord(PLAIN): "x",
    ord(DEFENDED): "PICOHOOK_UNKNOWN",
}


def note(
    programs: Runs,
    reader: Reader,
    command: Command,
    scope: Scope,
    *,
    language: str,
    text: str,
    operands: Sequence[Word] = (),
) -> None:
    """Note what code does."""
    if unknown(text):
        text = text.translate(_MARKS)
        if "PICOHOOK_UNKNOWN" in text and not re.search(r"['\"][^'\"\n]*PICOHOOK_UNKNOWN[^'\"\n]*['\"]", text):
            reader.reading.doubt(f"A part of the code that `{command.name}` runs is not known.", command)
    if len(text) > MOST:
        reader.reading.doubt(f"The code that `{command.name}` runs is too long to be read.", command)
        return
    made = _Notes(programs, reader, command, scope)
    made.operands = operands
    if language == "python":
        made.python(text)
    else:
        made.other(text, language)


class _Notes:
    def __init__(self, programs: Runs, reader: Reader, command: Command, scope: Scope) -> None:
        self.programs, self.reader, self.command, self.scope = programs, reader, command, scope
        self.reading = reader.reading
        self.effects = effects.Effects(programs.files, reader.reading, command, USUAL)
        self.values: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        self.operands: Sequence[Word] = ()
        self.asks_network = False

    def shell(self, text: str | None) -> None:
        """The code runs a shell text."""
        self.programs.text(self.reader, self.command, Word(UNKNOWN if text is None else text), self.scope)

    def program(self, words: Sequence[str | None]) -> None:
        """The code runs a program."""
        made = [Word(UNKNOWN if text is None else text) for text in words]
        if made:
            inner = self.programs.inner(self.scope, self.command)
            inner.feed = None
            self.reader.execute(made, inner)

    def deletes(self, text: str | None, *, tree: bool) -> None:
        """The code deletes a path."""
        word = Word(UNKNOWN) if text is None else Word(text, "*" in text)
        self.effects.act("delete-tree" if tree else "delete", word, link=True)

    # Python.

    def python(self, text: str) -> None:
        """Note what Python code does."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the text, which nobody here wrote
                tree = ast.parse(textwrap.dedent(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.other(text, "python")  # another version's syntax, or none
            return
        try:
            nodes = list(ast.walk(tree))
        except RecursionError:
            self.reading.doubt("The code is too deep to be read.", self.command)
            return
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                value = self.literal(node.value)
                self.values[name] = value if self.values.get(name, value) == value else None
                if isinstance(node.value, ast.Attribute | ast.Name):
                    self.names.setdefault(name, self.dotted(node.value))
            elif (
                isinstance(node, ast.For)
                and isinstance(node.target, ast.Name)
                and isinstance(node.iter, ast.List | ast.Tuple)
            ):
                self.values[node.target.id] = self.literal(node.iter.elts[0]) if len(node.iter.elts) == 1 else None
        self.asks_network = bool(re.search(r"requests|urllib|httpx|aiohttp|socket|http\.client|urlopen", text))
        self.strings(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        calls = [(self.dotted(node.func), node) for node in nodes if isinstance(node, ast.Call)]
        dotted = {name for name, _ in calls}
        if dotted & {"os.dup2", "pty.spawn"} and any("socket" in name or name.endswith(".connect") for name in dotted):
            self.effects.bare("reverse-shell")
        if _ENVIRONMENT.search(text):
            self.effects.bare("environment")
        for name, node in calls:
            try:
                self.call(name, node)
            except RecursionError:
                self.reading.doubt("The code is too deep to be read.", self.command)

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
            if (inner == "__import__" and node.args) or (inner == "importlib.import_module" and node.args):
                parts.append(self.literal(node.args[0]) or "?")
            else:
                parts.append(inner)
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
            name = self.dotted(node.func)
            first = self.literal(node.args[0]) if node.args else None
            if name.endswith(("expanduser", "expandvars", "abspath", "realpath")) and first is not None:
                return re.sub(r"^~(?=/|$)|\$HOME|\$\{HOME\}", self.reader.home, first)
            if name.endswith("expanduser") and isinstance(node.func, ast.Attribute):
                inner = self.literal(node.func.value)
                return None if inner is None else re.sub(r"^~(?=/|$)", self.reader.home, inner)
            if name in {"Path", "pathlib.Path", "str", "pathlib.PurePath", "os.fspath"}:
                return first if node.args else "."
            if name in {"pathlib.Path.home", "Path.home"}:
                return self.reader.home
            if name in {"os.getcwd", "pathlib.Path.cwd", "Path.cwd"}:
                return self.scope.cwds[0]
            if name in {"os.environ.get", "os.getenv"} and first == "HOME":
                return self.reader.home
            if name == "os.path.join" and node.args:
                parts = [self.literal(part) for part in node.args]
                return None if None in parts else "/".join(part or "" for part in parts)
            if name in {"tempfile.mkdtemp", "tempfile.gettempdir"}:
                return "/tmp/python" if name.endswith("mkdtemp") else "/tmp"
        if isinstance(node, ast.Subscript) and self.dotted(node.value) == "os.environ":
            return self.reader.home if self.literal(node.slice) == "HOME" else None
        if (
            isinstance(node, ast.Subscript)
            and self.dotted(node.value) == "sys.argv"
            and isinstance(node.slice, ast.Constant)
        ):
            index = node.slice.value
            if isinstance(index, int) and 0 < index <= len(self.operands):
                return self.operands[index - 1].text
        return None

    def call(self, name: str, node: ast.Call) -> None:
        """Note what one call does."""
        first = (
            node.args[0]
            if node.args
            else next((k.value for k in node.keywords if k.arg in {"args", "cmd", "path"}), None)
        )
        last = name.rpartition(".")[2]
        if name in _SHELLS:
            self.shell(self.literal(first))
        elif name in _PROCESSES:
            self.process(node, first)
        elif name in _EXECS:
            self.program([self.literal(argument) for argument in node.args[:1]])
        elif name in _TREES or last == "rmtree":
            self.deletes(self.literal(first), tree=True)
        elif name in _DELETES:
            self.deletes(self.literal(first), tree=False)
        elif last in {"unlink", "rmdir"} and isinstance(node.func, ast.Attribute):
            self.deletes(self.literal(node.func.value), tree=False)
        elif name in {"exec", "eval", "compile", "builtins.exec", "builtins.eval"} or (
            last == "loads" and name.startswith(("pickle", "marshal"))
        ):
            inner = self.literal(first)
            if inner is not None and not unknown(inner):
                note(self.programs, self.reader, self.command, self.scope, language="python", text=inner)
            elif not (name == "compile" and "open(" in ast.unparse(node)):
                self.reading.doubt("Python runs code that is not known.", self.command)
        elif name == "print" and node.args and (found := _SECRET_VARIABLE.search(ast.unparse(node))):
            self.effects.bare("environment", found[0])
        elif name in {"open", "io.open", "os.open"} or last in {"write_text", "write_bytes", "open"}:
            self.opened(node, first, last)
        elif (
            name in {"getattr", "builtins.getattr"}
            and len(node.args) > 1
            and self.dotted(node.args[0]) in {"os", "subprocess", "shutil", "builtins"}
        ):
            self.reading.doubt("Python calls a function whose name is not known.", self.command)
        elif name.startswith("?.") and last in {"system", "popen", "run", "call"}:
            self.reading.doubt("Python calls a function of a module that is not known.", self.command)
        elif (
            name in {"shutil.move", "os.rename", "os.replace", "shutil.copy", "shutil.copyfile", "shutil.copytree"}
            and len(node.args) > 1
        ):
            target = self.literal(node.args[1])
            if target is not None:
                self.effects.act("write", target, "move")
        elif _SENDERS.fullmatch(name) or _GETTERS.fullmatch(name):
            self.network(name, node, first)

    def process(self, node: ast.Call, first: ast.expr | None) -> None:
        """`subprocess.run(...)`."""
        shell = any(
            k.arg == "shell" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in node.keywords
        )
        if isinstance(first, ast.List | ast.Tuple):
            words = [self.literal(item) for item in first.elts if not isinstance(item, ast.Starred)]
            if any(isinstance(item, ast.Starred) for item in first.elts):
                words.append(None)
            if shell:
                self.shell(words[0] if words else None)
            elif (
                words
                and words[0] is None
                and isinstance(first.elts[0], ast.Attribute)
                and self.dotted(first.elts[0]) == "sys.executable"
            ):
                self.program(["python3", *words[1:]])
            else:
                self.program(words)
        elif isinstance(first, ast.Call) and self.dotted(first.func) == "shlex.split":
            self.shell(self.literal(first.args[0]) if first.args else None)
        elif isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "split":
            self.shell(self.literal(first.func.value))
        else:
            text = self.literal(first)
            if shell or text is None:
                self.shell(text)
            else:
                self.program([text])

    def opened(self, node: ast.Call, first: ast.expr | None, last: str) -> None:
        """A file is opened, or written."""
        if last in {"write_text", "write_bytes"} or (
            last == "open" and isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)
        ):
            path = self.literal(node.func.value) if isinstance(node.func, ast.Attribute) else None
            modes = node.args[:1]
        else:
            path, modes = self.literal(first), node.args[1:2]
        mode = (
            self.literal(modes[0])
            if modes
            else next((self.literal(k.value) for k in node.keywords if k.arg == "mode"), None)
        )
        if path is None or unknown(path):
            return  # too usual to ask about: a program that edits files
        kind = (
            "write"
            if last.startswith("write") or "w" in (mode or "") or "x" in (mode or "")
            else "append"
            if "a" in (mode or "")
            else "read"
        )
        self.effects.act(kind, path)

    def network(self, name: str, node: ast.Call, first: ast.expr | None) -> None:
        """A request, or a socket."""
        if isinstance(first, ast.Tuple) and first.elts:
            first = first.elts[0]
        host = self.literal(first)
        if _SECRET_VARIABLE.search(ast.unparse(first)) if first is not None else False:
            self.effects.bare("environment", "an address")
        sends = bool(_SENDERS.fullmatch(name)) and (
            name.rpartition(".")[2] not in {"urlopen", "Request"} or len(node.args) > 1 or bool(node.keywords)
        )
        if host is not None and ("." in host or host == "localhost"):
            self.effects.host("send" if sends else "connect", host, "code")
        if sends:
            self.effects.bare("code-sends")

    # Others.

    def strings(self, texts: object) -> None:
        """Literals that may be names of files, or URLs."""
        seen: set[str] = set()
        for text in texts:  # type: ignore[attr-defined]
            if text in seen or not text or len(text) > 300 or "\n" in text or " " in text.strip():
                continue
            seen.add(text)
            if re.match(r"https?://", text):
                if self.asks_network:
                    self.effects.host("connect", text, "literal")
            elif "/" in text or text.startswith((".", "~")) or "." in text:
                path = re.sub(r"^~(?=/|$)", self.reader.home, text)
                if re.search(r"[\w~.]", path) and "://" not in path:
                    self.effects.act("mention", path)

    def other(self, text: str, language: str) -> None:
        """Note what code of another language does, by the names of calls."""
        plain = re.sub(r"^\s*(?:#|//).*$", "", text, flags=re.MULTILINE)
        self.asks_network = bool(_REQUESTS.search(plain))
        self.strings(a or b for a, b in _STRING.findall(plain))
        if self.asks_network and re.search(r"POST|post\(|body|method|write\(|send|query|\?\w+=", plain):
            self.effects.bare("code-sends")
        if found := _SECRET_VARIABLE.search(plain):
            self.effects.bare("environment", found[0])
        if _ENVIRONMENT.search(plain):
            self.effects.bare("environment")
        if language == "perl" and re.search(r"\beval\s*\(?\s*(?:pack|\$|join|decode|reverse|unpack)", plain):
            self.reading.doubt("Perl runs code that is not known.", self.command)
        if language in {"perl", "ruby", "php", "lua"}:
            if re.search(r"sock", plain, re.IGNORECASE) and re.search(
                r"exec|STDIN|/bin/(?:ba)?sh|proc_open|popen|system", plain
            ):
                self.effects.bare("reverse-shell")
            for run in re.findall(r"`([^`]*)`|\bqx[({/|](.*?)[)}/|]|%x[({\[](.*?)[)}\]]", plain):
                self.shell(next(filter(None, run), ""))
            for run in re.findall(r"\bopen\s*\(?[^,]*,\s*[\"'](?:\|\s*([^\"']+)|([^\"'|]+)\|)[\"']", plain):
                self.shell(run[0] or run[1])
        elif (
            language == "node"
            and re.search(r"net\.(?:connect|Socket|createConnection)", plain)
            and "child_process" in plain
        ):
            self.effects.bare("reverse-shell")
        for found in _CALL.finditer(plain):
            before = plain[max(found.start() - 1, 0) : found.start()]
            self.named(found, language, before)

    def named(self, found: re.Match[str], language: str, before: str) -> None:
        name, argument, rest = found["name"], found["argument"] or "", found["rest"] or ""
        bare = {"perl": _BARE, "ruby": {"system", "exec"}}.get(language, set())
        if not found["open"] and name not in bare and not name.startswith("do "):
            return
        value = argument[1:-1] if argument[:1] in "\"'`" and argument else None
        if value is not None and (
            "${" in value or "#{" in value or (argument[0] == '"' and language in {"perl", "php"} and "$" in value)
        ):
            value = re.sub(r"[$#]\{[^}]*\}|\$\w+", UNKNOWN, value)
        if value is not None:
            value = _unescaped(value)
            value = re.sub(r"^~(?=/)", self.reader.home, value)
        if name.startswith("do "):
            self.shell(value)
        elif name in _RUN:
            if name == "exec" and before == "." and language == "node" and "child_process" not in found.string:
                return  # a regular expression's
            if name == "exec" and language == "lua":
                return
            words = (
                [a or b for a, b in _STRING.findall(argument + rest)]
                if name.startswith(("spawn", "execFile", "pcntl"))
                else []
            )
            listed = (
                [a or b for a, b in _STRING.findall(argument + rest)]
                if language in {"perl", "ruby"} and "," in rest[:2]
                else []
            )
            if words or listed:
                self.program(words or listed)
            else:
                self.shell(value)
        elif name in _TREE:
            if name in {"rm", "rmSync", "rmdirSync"} and "recursive" not in rest:
                self.deletes(value, tree=False)
            elif value is not None or found["open"]:
                self.deletes(value, tree=True)
        elif name in {"unlink", "unlinkSync"} or (name == "delete" and before == "." and "File.delete" in found.string):
            if re.match(r"glob|<", argument):
                inner = _STRING.search(argument + rest)
                value = re.sub(r"^~(?=/|$)", self.reader.home, (inner[1] or inner[2])) if inner else value
            self.deletes(value, tree=False)
        elif name in {"writeFileSync", "writeFile", "file_put_contents", "truncateSync"} and value is not None:
            self.effects.act("write", value)
        elif name in {"readFileSync", "readFile", "file_get_contents"} and value is not None and "://" not in value:
            self.effects.act("read", value)
        elif name == "appendFileSync" and value is not None:
            self.effects.act("append", value)
        elif (
            name in {"eval", "Function"}
            and value is None
            and argument
            and language in {"node", "php", "perl", "ruby"}
            and argument[0] not in "{["
        ):
            self.reading.doubt(f"`{self.command.name}` runs code that is not known.", self.command)


def awk(programs: Runs, reader: Reader, command: Command, scope: Scope, text: str) -> None:
    """Note what an awk program runs and writes."""
    for quoted, other in re.findall(r"system\s*\(\s*(?:\"((?:[^\"\\]|\\.)*)\"\s*\)|([^)]*))", text):
        programs.text(reader, command, Word(quoted.replace('\\"', '"') if quoted else UNKNOWN if other else ""), scope)
    for run in re.findall(r"\"((?:[^\"\\]|\\.)*)\"\s*\|&?\s*getline", text) + re.findall(
        r"print[^|\n;}]*\|&?\s*\"((?:[^\"\\]|\\.)*)\"", text
    ):
        programs.text(reader, command, Word(run.replace('\\"', '"')), scope)
    if re.search(r"[\w)\]]\s*\|&?\s*getline|\bprint[^|\"}]*\|\s*[a-z]\w*\s*[;}]", text):
        reader.reading.doubt("`awk` runs a text that is not known.", command)
    made = effects.Effects(programs.files, reader.reading, command, USUAL)
    for sign, path in re.findall(r"print[^;}\n]*?(>>?)\s*\"([^\"]+)\"", text):
        made.act("append" if sign == ">>" else "write", path)


def sed(programs: Runs, reader: Reader, command: Command, scope: Scope, text: str) -> None:
    """Note what a sed script runs and writes."""
    made = effects.Effects(programs.files, reader.reading, command, USUAL)
    if re.search(r"(?:^|[;{}\n]|[\d$/]\s*)e(?:\s+\S|\s*$)", text) and not re.match(
        r"s(.).*\1.*\1[gpiIm0-9]*$", text, re.DOTALL
    ):
        run = re.search(r"e\s+(.+)$", text)
        programs.text(reader, command, Word(run[1] if run else UNKNOWN), scope)
    for found in re.finditer(
        r"(?:^|[;{}\n]|[\d$/]\s*)s([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1([a-zA-Z0-9]*)(?:\s+(\S+))?",
        text,
        re.DOTALL,
    ):
        if "e" in found[4]:
            programs.text(reader, command, Word(found[3] if not found[2].strip(".*^$") else UNKNOWN), scope)
        if "w" in found[4] and found[5]:
            made.act("write", found[5])
    for path in re.findall(r"(?:^|[;{}\n]|[\d$/]\s*)[wW]\s+([^;\n]+)", text):
        if not re.match(r"s(.)", text):
            made.act("write", path.strip())


def _unescaped(text: str) -> str:
    """The value of a literal in JavaScript, Perl or Ruby."""

    def one(found: re.Match[str]) -> str:
        code = found[2] or found[3]
        return chr(int(code, 16)) if code else {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])

    return re.sub(r"\\(x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", one, text, flags=re.DOTALL)
