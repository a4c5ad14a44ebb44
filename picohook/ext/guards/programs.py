"""Programs: what a command that starts does, and what it runs. The table is `programs.toml`."""

import itertools
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from . import code
from .effects import FETCHERS, Effects, is_fetched
from .expansion import Scope
from .listing import filled, listed
from .names import data, listed as named
from .reader import Reader
from .reading import Command, Feed
from .rows import RUNS, Choice, Row, Split, Step, names_in, row_of, split, table
from .words import UNKNOWN, Word, joined, unknown

_READS_PROGRAMS = named("reads-programs")
_GIT_VARIABLES = named("git-variables")
_HARMLESS_EDITORS = named("harmless-editors")
_MARKED = Choice("-I|-J|--replace|-i", {})
_SHELLS = frozenset(("sh", "zsh"))
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_INPUT = re.compile(r"/{1,2}(?:proc/self/root/)*(?:dev/(?:stdin$|fd/)|proc/self/fd/)")
_PATCH = re.compile(
    r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$|^\+\+\+ (?:b/)?(?!/dev/null)([^\t\n]+)",
    re.MULTILINE,
)
_ENDINGS: dict[str, str] = data("lists")["endings"]


def started(reader: Reader, command: Command, scope: Scope) -> None:
    """A command starts: note what it does, and read what it runs."""
    Started(reader, command, scope).follow()


class Started(Effects):
    """A command that has started: what it does is noted, and what it runs is read."""

    row: Row
    operands: list[Word]
    given: list[tuple[str, Word]]

    def follow(self) -> None:
        """Note what it does, and read what it runs."""
        command = self.command
        if not command.name and is_fetched(command.words[0]):
            self.bare("fetch-run", command.words[0].shown)
        elif not command.name:
            self.reading.doubt(f"The name of the program is not known: `{command.words[0].shown}`.", command)
        row = row_of(command.name)
        made = split(command.words, row)
        command.options, command.operands, command.whole = made.options, made.operands, row.whole
        if command.name and "/" in command.words[0].text:
            self._file(command.words[0], row.name, is_named=True)
        if command.name in _READS_PROGRAMS and any(map(is_fetched, command.words)):
            self.bare("fetch-run", command.line)
        if command.name in _BUILTINS:
            _BUILTINS[command.name](self.reader, command, self.scope)
        self.redirects()
        for name, value in command.assigned:
            self._variable(name, value)
        self.do(row, made)
        if nested := self._subcommand(row):
            self.do(*nested)
        if row.guessed and not command.wraps:
            self.do(table()["*"], made)

    def do(self, row: Row, parts: Split) -> None:
        """Take the steps of a row that hold for the command."""
        self.row, self.operands, self.given = row, parts.operands, parts.given
        asks = not self.command.options.keys().isdisjoint(("--help", "--version"))
        strange = row.strange(parts.options)
        for step in row.steps:
            if (asks and step.kind not in RUNS) or not step.holds(self.command):
                continue
            if strange and step.kind in {"run", "line", "arguments"}:
                self.reading.doubt(f"It is not known which words `{row.name}` runs with `{strange}`.", self.command)
            getattr(self, step.method, self._on_files)(step, self._chosen(step))

    def _subcommand(self, row: Row) -> tuple[Row, Split] | None:
        """The row of its subcommand, and the words after that as it reads them."""
        command = self.command
        for count in (2, 1) if row.nested else ():
            subs = command.operands[:count]
            found = table().get(" ".join([row.name, *(word.text for word in subs)]))
            if found and len(subs) == count:
                at = next(at for at, word in enumerate(command.words) if word is subs[-1])
                parts = split(command.words[at:], found)
                command.options = split(command.words[:at], row).options | parts.options
                command.options |= {f"{name}={word.text}": "" for name, word in parts.given}
                command.operands, command.whole = [*subs, *parts.operands], row.whole | found.whole
                return found, parts
        return None

    def _variable(self, name: str, value: str) -> None:
        """It starts with this variable of its own."""
        self.bare("variable", f"{name}={value}")
        if name in _GIT_VARIABLES:
            self.do_program(None, [Word(value)])
        elif why := self.reader.oddity(name, value):
            self.reading.doubt(why, self.command)

    # The words of a step.

    def _chosen(self, step: Step) -> list[Word]:
        """The words that a step is about."""
        words = [word for name, word in self.given if name in step.options]
        operands = self.operands[step.skips :]
        for choice in step.choices:
            words += _CHOICES[choice](self, operands)
        if step.match is not None:
            matched = _matched(words[:1] if step.kind == "run" else words, step.match)
            words = matched + words[1:] if matched and step.kind == "run" else matched
        return words or ([Word(step.default)] if step.default else [])

    def _option(self, names: frozenset[str]) -> str:
        return next((word.text for name, word in self.given if name in names), "")

    def target(self) -> list[Word]:
        """What an option names as the place for files that are copied."""
        return [Word(named) for named in [self._option(names_in(self.row.target))] if named]

    # What it does, by the kinds of steps.

    def _on_files(self, step: Step, words: list[Word]) -> None:
        command, base = self.command, self._option(step.within)
        kind = f"{step.kind}-tree" if step.tree.is_in(command) else step.kind
        note = command.operands[0].text if step.note == "first" and command.operands else step.note
        for given in words:
            word = given if not base or given.text.startswith("/") else replace(given, text=f"{base}/{given.text}")
            some = step.what == "found" and (word.glob or not word.known)
            if kind == "delete-tree" and (some or self.is_one_file(word)):
                self.act("delete", word)
            elif kind == "sent":
                self.sends(word)
            elif kind != "read" or not word.text.startswith("-"):
                self.act(kind, word, note)
            if note == "download" or (note == "input" and self.saves()):
                self.files.fetched.update(self.paths(word))
            elif note == "input" and command.feed is not None:
                self.keep(word, command.feed.text, adds=kind == "append")

    def do_put(self, step: Step, words: list[Word]) -> None:
        """The words are texts that the operands get. `edit`: each is a part of them."""
        text = "\n".join(word.text for word in words) if words else None
        for file in self.operands:
            self.put("write", file, step.note, text, known=step.note != "edit")

    def do_patch(self, _step: Step | None, words: list[Word]) -> None:
        """The words are patches for several files."""
        text = "\n".join(word.text for word in words)
        found = _PATCH.findall(text)
        if words and not found:
            self.reading.doubt("A patch names no file.", self.command)
        for verb, path, other in found:
            self.act("delete" if verb == "Delete File" else "write", Word(path or other), "edit")
            self.act("memory", Word(path or other), text)
        self.bare("content", "\n".join(line[1:] for line in text.splitlines() if line.startswith("+")))

    def do_connect(self, step: Step, words: list[Word]) -> None:
        """The words are hosts."""
        for word in words:
            self.host(step.kind, word.text, step.note)

    do_send = do_look_up = do_connect

    def do_statement(self, step: Step, words: list[Word]) -> None:
        """The words are statements for a database, whose literal texts do not count."""
        for word in words:
            has_sql = re.search(r"(?i)\b(?:select|insert|update|delete|drop)\b", word.text)
            self.bare(step.kind, re.sub(r"'(?:[^']|'')*'", "''", word.text) if has_sql else word.text)

    def do_act(self, step: Step, words: list[Word]) -> None:
        """The step names an act, a doubt, or why the shell may mean something else by what follows."""
        if step.what and not words:
            return
        if step.kind == "act":
            for word in words or [Word("")]:
                self.bare(step.note, word.text)
        elif step.kind == "odd":
            self.scope.odd = step.note
        else:
            self.reading.doubt(step.note, self.command)

    do_doubt = do_odd = do_act

    # What it runs.

    def do_run(self, step: Step, words: list[Word]) -> None:
        """The words are another command."""
        if not words:
            return
        scope = self.inner()
        if self.command.name in {"builtin", "command"} and words[0].text in _BUILTINS:
            scope = self.scope  # the same shell runs it
        if directory := self._option(step.within):
            scope.cwds = tuple(_joined(cwd, directory) for cwd in scope.cwds)
        assigned: list[tuple[str, str]] = []
        while words and (found := _ASSIGNED.fullmatch(words[0].text)):
            assigned.append((found[1], found[2]))
            words = words[1:]
        self.run(words[1:] if words and words[0].text == "-" else words, scope, assigned)

    def do_shell(self, step: Step, words: list[Word]) -> None:
        """Each word is a shell text, or for other kinds all together are one. That of `eval` runs in the same shell."""
        changes: dict[str, Any] = {}
        if self.row.name in _SHELLS:
            changes["positional"] = [word.text for word in self.operands[2:]]
        if step.kind != "shell" and words:
            words = [joined([Word(step.note), *words] if step.note else words)]
        for word in words:
            if step.kind == "eval" and word.known:
                self.reader.read(word.text, self.scope)
            else:
                self.shell(word, **changes)

    do_line = do_eval = do_shell

    def do_program(self, _step: Step | None, words: list[Word]) -> None:
        """Settings name programs that git or ssh runs."""
        for word in words:
            if word.text not in _HARMLESS_EDITORS:
                if not word.text.startswith(("ssh ", "less", "cat", "true", "false", "vim", "nano", "code ", "delta")):
                    self.bare("git-runs", word.text)
                self.shell(replace(word, text=word.text.replace("%S", "")))

    def do_code(self, step: Step, words: list[Word]) -> None:
        """Each word is code."""
        for word in words:
            if is_fetched(word):
                self.bare("fetch-run", word.text[:60])
            code.note(self, step.language or self.row.name, word.text)

    def do_interpret(self, step: Step, words: list[Word]) -> None:
        """A file has the code; without one it is read from the input."""
        language = step.language or self.row.name
        if not words or words[0].text == "-":
            self._fed(self.command.feed, language)
        elif not _INPUT.match(os.path.normpath(words[0].text)):
            self._file(words[0], language)
        else:  # as in `bash <(...)`
            inside = list(words[0].inside)
            feed = Feed(inside, self.reader.output(inside, self.scope)) if inside else self.command.feed
            self._fed(feed, "sh" if language == "source" else language)

    def _fed(self, feed: Feed | None, language: str) -> None:
        if feed is None:
            return
        if any(one.name in FETCHERS for one in feed.commands):
            self.bare("fetch-run", " | ".join(one.line for one in feed.commands)[:120])
        elif feed.text is not None:
            self._text(feed.text, language, self.inner(feed=None).copy())
        elif feed.file is not None:
            self._file(feed.file, language)
        elif feed.commands and all(one.name == "cat" and not one.via for one in feed.commands):
            for word in feed.commands[-1].operands:
                self._file(word, language)
        else:
            self.reading.doubt(f"`{self.command.name}` runs a text that is not known.", self.command)

    def _text(self, text: str, language: str, scope: Scope) -> None:
        if language in {"sh", "source"}:
            self.reader.read(text, scope)
        else:
            code.note(self, language, text)

    def _file(self, word: Word, language: str, *, is_named: bool = False) -> None:
        """It runs a file: read its text if this session wrote it. `is_named`: it is what the command is called."""
        if not word.known and not is_named:
            known = word.glob or (bool(word.inside) and listed(word.inside) is not None)
            if not known and UNKNOWN in word.text.rpartition("/")[2]:
                self.reading.doubt(f"It is not known which file `{self.command.name}` runs.", self.command)
            return
        if not self.files.fetched.isdisjoint(self.places.real(word.text, cwd) for cwd in self.scope.cwds[:2]):
            self.bare("fetch-run", word.shown)
            return
        for path, text in self._own([word.text]):
            if text == UNKNOWN:
                self.reading.doubt(f"`{word.shown}` was written before, and its text is not known.", self.command)
                continue
            kind = _language(path, text) or language or ("sh" if is_named else "")
            self._text(text, kind, self.scope if kind == "source" else self.inner().copy())

    def _own(self, names: Iterable[str], within: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
        """The paths and texts of files of these names that the call or its session wrote, while they run.

        `within`: the option that names their directory.
        """
        files, base = self.files, self._option(within) if within else ""
        for cwd, name in itertools.product(self.scope.cwds[:2], names):
            path = self.places.real(posixpath.join(base, name), cwd)
            text = files.text_of(path)
            if text is not None and path not in files.running and len(files.running) < 5:
                files.running.append(path)
                yield path, text
                files.running.pop()

    def do_arguments(self, step: Step, _words: list[Word]) -> None:
        """`xargs`, `parallel`: what they read become words of a command, or of a shell text."""
        feed, words = self.command.feed or Feed(), self.operands
        at = next((at for at, word in enumerate(words) if word.text == ":::"), len(words))
        words, arguments = words[:at], words[at + 1 :] or self._arguments(feed)
        arguments = [replace(word, inside=tuple(feed.commands)) for word in arguments]
        marked = _MARKED.is_in(self.command)
        mark = self._option(_MARKED.options) or ("{}" if step.note or marked else "")
        if not mark or not any(mark in word.text for word in words):
            words = [*words, *([Word(mark)] if step.note else () if marked or not words else arguments)]
            mark = mark if step.note else ""
        for one in arguments[:16] or [Word(mark)] if mark else [Word("")]:
            if not step.note:
                self.run([filled(word, one, mark) for word in words] if mark else words, self.inner(feed=None))
            elif [word.text for word in words] == [mark]:
                self.shell(one)
            else:
                line = " ".join(word.text for word in words).replace(mark, '"$1"')
                self.shell(Word(line), positional=[one.text])

    def _arguments(self, feed: Feed) -> list[Word]:
        """The words that are in an input."""
        options = self.command.options
        if feed.text is not None:
            separator = "\0" if options.keys() & {"-0", "--null"} else "\n" if options.keys() & {"-I", "-d"} else None
            return [Word(one) for one in feed.text.split(separator)[:64] if one.strip()]
        if feed.file is not None and feed.file.text == "/dev/null":
            return []
        found = listed(feed.commands) if feed.commands else None
        return [Word(UNKNOWN)] if found is None else found

    def do_each(self, step: Step, _words: list[Word]) -> None:
        """`find -exec`: a command for each file that it finds."""
        names, words = step.options, self.command.words
        found = listed([self.command]) or [Word(UNKNOWN)]
        end = 0
        for start, word in enumerate(words):
            if start >= end and word.text in names:
                end = next((at for at in range(start, len(words)) if words[at].text in {";", "+"}), len(words))
                made = words[start + 1 : end]
                if step.default and not any("{" in one.text for one in made):
                    made = [*made, Word(step.default)]
                for one in found:
                    self.run([filled(part, one) for part in made])

    def do_recipes(self, step: Step, words: list[Word]) -> None:
        """`make`: the recipes of a Makefile."""
        for _, text in self._own([name for word in words for name in word.text.split("|")], step.within):
            lines = re.findall(r"(?m)^\t[@+-]*(.*)", text.replace("\\\n", " ")) + re.findall(
                r"\$\(shell ([^)]*)\)", text
            )
            for line in lines[:200]:
                plain = re.sub(r"\$[({](\w+)[)}]|\$[@<^?*]", "${PICOHOOK_UNKNOWN}", line).replace("$$", "$")
                self.reader.read(plain, self.inner().copy())

    def do_scripts(self, step: Step, words: list[Word]) -> None:
        """`npm`: the scripts of package.json."""
        name = next((word.text for word in words if word.text not in {"run", "run-script"}), "")
        installs = "|preinstall|postinstall|prepare" if name in {"install", "i", "ci", "add"} else ""
        script = re.compile(rf'"(?:(?:pre|post)?{re.escape(name)}{installs})"\s*:\s*"((?:[^"\\]|\\.)*)"')
        for _, text in self._own(["package.json"], step.within):
            for found in script.findall(text):
                self.shell(Word(found.replace('\\"', '"').replace("\\\\", "\\")))


_CHOICES: dict[str, Callable[[Started, list[Word]], Iterable[Word]]] = {
    "operands": lambda _, operands: operands,
    "first": lambda _, operands: operands[:1],
    "rest": lambda _, operands: operands[1:],
    "sources": lambda started, operands: operands if started.target() else operands[:-1],
    "target": lambda started, operands: started.target() or operands[1:][-1:],
    "words": lambda started, _: started.command.words[1:],
    "options": lambda started, _: [word for word in started.command.words[1:] if word.text[:1] == "-"],
    "--": lambda started, _: list(itertools.dropwhile(lambda word: word.text != "--", started.command.words))[1:],
    "input": lambda started, _: [Word(feed.text)] if (feed := started.command.feed) and feed.text else [],
    "file": lambda started, _: [feed.file] if (feed := started.command.feed) and feed.file else [],
    "found": lambda started, _: listed([started.command]) or [],
}


def _matched(words: Iterable[Word], match: re.Pattern[str]) -> list[Word]:
    """The parts of words that match: the group that does, or all of it."""
    return [
        Word(found[found.lastindex or 0], word.glob, word.inside, word.variables)
        for word in words
        for found in match.finditer(word.text)
    ]


def _language(path: str, text: str) -> str:
    first = text.partition("\n")[0]
    if first.startswith("#!") and first[2:].split():
        name = row_of(first.split("/")[-1].split()[-1]).name
        return "sh" if name in _SHELLS else name
    return _ENDINGS.get(path.rpartition(".")[2], "")


def _joined(cwd: str, directory: str) -> str:
    if unknown(directory) or (UNKNOWN in cwd and not directory.startswith("/")):
        return UNKNOWN
    return posixpath.normpath(posixpath.join(cwd, directory))


# Commands of the shell itself that change what it knows.


def _cd(reader: Reader, command: Command, scope: Scope) -> None:
    operands = [word for word in command.operands if word.text]
    before = scope.cwds
    text = operands[0].text if operands else "-" if command.name == "pushd" else reader.home
    if command.name == "popd" or text == "-" or (operands and operands[0].glob):
        text = UNKNOWN
    scope.cwds = tuple(dict.fromkeys(_joined(cwd, text) for cwd in before))
    if not scope.strict and any(UNKNOWN in cwd or not os.path.isdir(cwd) for cwd in scope.cwds):
        scope.before = before


def _set(_reader: Reader, command: Command, scope: Scope) -> None:
    scope.strict = scope.strict or "-e" in command.options
    if command.operands and "-o" not in command.options:
        scope.positional = [word.text for word in command.operands]


def _shift(_reader: Reader, _command: Command, scope: Scope) -> None:
    scope.positional = scope.positional and scope.positional[1:]


def _read(reader: Reader, command: Command, scope: Scope) -> None:
    feed, array = command.feed, command.name != "read"
    names = [word.text for word in command.operands] or ["REPLY"]
    lines = feed.text.splitlines() if feed and feed.text is not None and len(names) == 1 and not array else []
    for name in names:
        reader.assign(name, lines[0] if len(lines) == 1 else UNKNOWN, scope)
        scope.sources[name] = tuple(feed.commands) if feed else ()


def _declare(reader: Reader, command: Command, scope: Scope) -> None:
    for word in command.words[1:]:
        name, equals, value = word.text.partition("=")
        if command.name == "unset":
            scope.variables[name] = ""
        elif equals and name.isidentifier():
            reader.assign(name, value, scope)
            scope.sources[name] = word.inside


def _alias(_reader: Reader, command: Command, scope: Scope) -> None:
    for word in command.operands:
        name, equals, value = word.text.partition("=")
        if equals and not unknown(value):
            scope.aliases[name] = value


_BUILTINS: dict[str, Callable[[Reader, Command, Scope], None]] = {
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly", "unset"), _declare),
    "set": _set,
    "shift": _shift,
    "alias": _alias,
}
