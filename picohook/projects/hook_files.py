"""The files of its project that a hook runs: its command shows them, or its `trust` names them.

Three kinds of command show their files: a program of the project, an interpreter with its script, and a few programs that start
nothing. Any other program may find files by a name, a module's path, or a convention (`make`, `npm run`). A hook that runs one
has to name the files in `trust`. Files that those files import or start are not looked at.
"""

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from ..model.spec import HookSpec, python_file
from ..process.environment import search_path

MOST_FILES = 1000
MOST_BYTES = 64 << 20
"""The most bytes of the files that the globs of one hook name."""
MOST_LOOKED_AT = 20_000
"""The most files and directories that are looked at for the globs of one hook."""

_WRITES = frozenset({">", ">>", ">|", "&>", "&>>"})
_INTERPRETERS = (
    # An interpreter's names, its options without files or code, and whether it looks elsewhere for a missing script.
    (re.compile(r"(python|pypy)[\d.]*"), re.compile(r"-[BEIOPSbdqsuv]+"), False),
    (re.compile(r"(perl|ruby)[\d.]*"), re.compile(r"-[Ww]"), False),
    (re.compile(r"(ba|da|k|z)?sh"), re.compile(r"-[efux]+"), True),
    (re.compile(r"node(js)?"), re.compile(r"--no-warnings"), True),
)
_START_NOTHING = frozenset(
    {":", "true", "false", "echo", "printf", "test", "[", "[[", "pwd", "exit", "cat", "grep", "jq"}
    | {"head", "tail", "wc", "tr", "cut", "uniq", "date", "sleep", "basename", "dirname"}
)
_MODULES_OF_JQ = re.compile(r"-\w*L|--library-path|.*\b(import|include)\b", re.DOTALL)
"""An argument of `jq` by which it may read modules that no argument names."""
_MODULES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".pm", ".sh", ".lua", ".php", ".class")
_MOST_PIECES = 256

# The part of the shell's language that expands no words.
_SHELL = re.compile(
    r"""
    (?P<blank> [ \t]+ )
    | (?P<end> \|\|? | && | ; | \n )
    | (?P<both> [12]?>&[12] (?=[\s;|&}]) )
    | (?P<brace> [{}] (?=[\s;|&]) )
    | (?P<test> \[\[? (?=[ \t]) | \]\]? (?=[\s;|&]) )
    | (?P<into> [0-9]?>>? )
    | (?P<from> < (?!<) )
    | (?P<word> (?: [\w@%+:,./=-] | '[^']*' | "[^"$`\\]*" )+ )
    """,
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_BEFORE_A_COMMAND = frozenset({"if", "then", "elif", "else", "!"})


def hint(where: str) -> str:
    """Returns how a user names the files that a hook runs. `where` is the setting's place; empty for the hook's table."""
    names = " ".join(filter(None, ("name them", where)))
    return f"{names}: trust = [GLOB, ...], or trust = [] if it runs none; or make it a script of the project"


def unclear(spec: HookSpec, project: Path) -> str:
    """Returns why the command does not show which files of the project it runs; empty if it does, or if `trust` names them."""
    if spec.trust is not None or not (spec.command or spec.run):
        return ""
    if spec.run is None:
        return _unclear_command(list(spec.command), spec, project)
    try:
        commands = list(_commands(spec.run))
    except ValueError:
        return "only the shell can tell what this runs"
    return next(filter(None, (_unclear_command(words, spec, project) for words in commands)), "")


def programs(spec: HookSpec) -> list[str]:
    """The paths of the programs that the command names, looked up as at the hook's start."""
    try:
        commands = [list(spec.command)] if spec.command else list(_commands(spec.run or ""))
    except ValueError:
        return []
    return list(filter(None, (_find(words[0], spec) for words in commands)))


def arguments(spec: HookSpec) -> list[str]:
    """Each element of the command or word of the shell command, as a path; for a Python function, its file."""
    words = list(spec.command)
    if spec.run is not None:
        words = _words(spec.run)
    elif spec.python is not None:
        file = python_file(spec)
        words = _module_files(spec.python.partition(":")[0]) if file is None else [str(file)]
    return [str(Path(spec.dir or "") / word) for word in words]


def _module_files(name: str) -> list[str]:
    """The files on the import path that an import of this module may run. Imports nothing."""
    package, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    files = [] if found is None or found.origin is None else [found.origin]
    for place in (found and found.submodule_search_locations) or ():
        for depth in range(1, len(rest) + 1):
            inner = Path(place, *rest[:depth])
            files += [str(path) for path in (inner.with_suffix(".py"), inner / "__init__.py") if path.is_file()]
    return files


def _words(shell: str) -> list[str]:
    """The words of a shell command, without the files that it writes, which a hook does not run."""
    lexer = shlex.shlex(shell, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed: the shell reports it
        return shell.split()
    return [word for before, word in zip(["", *words], words, strict=False) if before not in _WRITES]


def inside(path: str, project: Path) -> bool:
    """Whether a path is in the project, by its name or after links are followed."""
    return any(Path(one).is_relative_to(project) for one in (os.path.normpath(path), os.path.realpath(path)))


def named_files(spec: HookSpec, project: Path) -> list[str]:
    """The files that the globs of a hook match. Raises `ValueError` with a wrong glob and its mistake."""
    found: dict[str, None] = {}
    size = looked_at = 0
    for glob in spec.trust or ():
        count = 0
        for path in _below(project, glob):
            looked_at += 1
            if looked_at > MOST_LOOKED_AT:
                raise ValueError(glob, f"searches more than {MOST_LOOKED_AT} files: name a directory")
            if not matches(path, glob, project) or not os.path.isfile(path):
                continue
            count += 1
            if path not in found:
                found[path] = None
                size += os.stat(path).st_size
            if len(found) > MOST_FILES or size > MOST_BYTES:
                raise ValueError(glob, f"names more than {MOST_FILES} files, or {MOST_BYTES >> 20} MiB")
        if not count:
            raise ValueError(glob, "matches no file of the project")
    return list(found)


def matches(path: str, glob: str, project: Path) -> bool:
    """Whether a glob, which is relative to the project, matches a path."""
    inner = PurePath(path)
    return inner.is_relative_to(project) and _match(inner.relative_to(project).parts, tuple(glob.split("/")))


def _match(parts: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_match(parts[start:], globs[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], globs[0]) and _match(parts[1:], globs[1:])


def _below(project: Path, glob: str) -> Iterator[str]:
    """The files that the glob may match. Links to directories are followed only where the glob names them."""
    *steps, last = glob.split("/")
    plain = next((at for at, step in enumerate(steps) if set("*?[") & set(step)), len(steps))
    start = os.path.join(project, *steps[:plain])
    if plain == len(steps) and not set("*?[") & set(last):
        yield os.path.join(start, last)
        return
    deepest = None if "**" in (*steps, last) else len(steps) - plain
    for directory, directories, files in os.walk(start):
        yield directory  # counted towards the limit
        yield from (os.path.join(directory, name) for name in sorted(files))
        directories.sort()
        if deepest is not None and len(PurePath(directory).relative_to(start).parts) >= deepest:
            directories.clear()


def _unclear_command(words: list[str], spec: HookSpec, project: Path) -> str:
    found = _find(words[0], spec)
    real = os.path.realpath(found)
    is_own = bool(found) and Path(real).is_relative_to(project)
    called, really = os.path.basename(words[0]), os.path.basename(real)
    # A link in the project to a program elsewhere can have any name.
    is_link = bool(found) and not is_own and inside(found, project)
    names = {really} if is_link else {called, really} if is_own else {called}
    for pattern, harmless, looks_elsewhere in _INTERPRETERS:
        if any(map(pattern.fullmatch, names)):
            return _unclear_script(words, harmless, spec, project, looks_elsewhere=looks_elsewhere)
    if is_own:
        return _names_more(words[1:], spec, project)
    if words[0] == "cd" and words[1:]:
        here = os.path.realpath(spec.dir or "")
        if all(os.path.isabs(one) and os.path.realpath(one) == here for one in words[1:]):
            return ""
    if "jq" in names and any(map(_MODULES_OF_JQ.match, words[1:])):
        return "jq may read modules"
    return "" if names <= _START_NOTHING else f"{words[0]} may find them by itself"


def _unclear_script(
    words: list[str], harmless: re.Pattern[str], spec: HookSpec, project: Path, *, looks_elsewhere: bool
) -> str:
    start = next((at for at, word in enumerate(words) if at and not harmless.fullmatch(word)), len(words))
    rest = words[start:]
    if not rest or rest[0].startswith("-") or not rest[0]:
        shown = " ".join([words[0], *rest[:1]])
        return f"{shown} does not name the script that it runs"
    script = _join(rest[0], spec)
    if looks_elsewhere and not os.path.isfile(script):
        return f"there is no file {rest[0]}"
    if inside(script, project) and os.path.lexists(script) and not os.path.isfile(script):
        return f"{rest[0]} is not a file"
    return _names_more(rest[1:], spec, project)


def _names_more(words: list[str], spec: HookSpec, project: Path) -> str:
    """Returns why an argument may name a file of the project without being its path; empty if no argument does."""
    for word in words:
        pieces = _pieces(word)
        if len(pieces) > _MOST_PIECES:
            return "one of its arguments is too long to check"
        for piece in pieces:
            path = _join(piece, spec)
            if piece == word and os.path.isfile(path):
                continue
            module = _join(piece.replace(".", "/"), spec)
            for one in (path, *(module + ending for ending in _MODULES)):
                if not os.path.lexists(one):
                    continue
                real = os.path.realpath(one)
                if inside(one, project) or (real != "/" and project.is_relative_to(real)):
                    return f"its argument {word} may mean {os.path.relpath(one, project)}"
    return ""


def _pieces(word: str) -> set[str]:
    """The parts of a word that may be a path: `--file=hook.py`, `hook.py:main`, `-fhook.py`."""
    pieces = {word, *re.split(r"[^\w./~+-]+", word)}
    pieces |= {word[match.end() :] for match in re.finditer(r"[^\w./~+-]", word)}
    if word.startswith("-"):
        pieces |= {word[start:] for start in range(1, len(word))}
    return pieces - {""}


def _find(word: str, spec: HookSpec) -> str:
    if os.sep in word:
        return _join(word, spec)
    on_path = shutil.which(word, path=search_path(spec, os.environ))
    return os.path.abspath(on_path) if on_path else ""


def _join(word: str, spec: HookSpec) -> str:
    return str(Path(spec.dir or "") / word)


def _commands(shell: str) -> Iterator[list[str]]:
    """The simple commands of a shell command. Raises `ValueError` where the shell would expand a word."""
    words: list[str] = []
    target = ""
    at, shell = 0, shell + "\n"
    while at < len(shell):
        token = _SHELL.match(shell, at)
        if token is None:
            raise ValueError(shell[at:])
        at, kind = token.end(), token.lastgroup
        if target and kind not in {"blank", "word"}:
            raise ValueError(token[0])
        if kind == "word" and target:
            target = ""
        elif kind == "brace" and words:
            raise ValueError(token[0])  # the shell takes it as a word
        elif kind == "test" or (kind == "word" and (words or token[0] not in _BEFORE_A_COMMAND)):
            words.append(_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token[0]))
        elif kind in {"into", "from"}:
            target = token[0]
        elif kind == "end" and words:
            if words != ["fi"]:
                yield words
            words = []
