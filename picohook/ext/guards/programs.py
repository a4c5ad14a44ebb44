"""Programs: what a command that starts does, and what it runs. The table is `programs.toml`."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import code
from .effects import FETCHERS, CallFiles, Effects, is_fetched
from .listing import filled, listed
from .names import data, listed as named
from .reading import Feed
from .rows import RUNS, has, row_of, split, table
from .words import DEFENDED, OPEN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .reader import Reader, Scope
    from .reading import Command
    from .rows import Row, Split, Step

_READS_PROGRAMS = named("reads-programs")
_GIT_VARIABLES = named("git-variables")
_HARMLESS_EDITORS = named("harmless-editors")
_MARKED = frozenset(("-I", "--replace"))
_SHELLS = frozenset(("sh", "zsh"))
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_INPUT = re.compile(r"/{1,2}(?:proc/self/root/)*(?:dev/(?:stdin$|fd/)|proc/self/fd/)")
_UNQUOTED = dict.fromkeys(map(ord, (UNKNOWN, OPEN, DEFENDED)), "'\"${PICOHOOK_UNKNOWN}\"'")
"""What is unknown in a quoted word, for a shell: no text of its own."""
_ENDINGS: dict[str, str] = data("lists")["endings"]


class Programs(CallFiles):
    """Follows the commands of one call into the commands that they run."""

    def started(self, reader: Reader, command: Command, scope: Scope) -> None:
        """A command starts: note what it does, and read what it runs."""
        Started(self, reader, command, scope).follow()


class Started(Effects):
    """A command that has started: what it does is noted, and what it runs is read."""

    row: Row
    operands: list[Word]
    given: list[tuple[str, Word]]

    def follow(self) -> None:
        """Note what it does, and read what it runs."""
        command = self.command
        if not command.name:
            self._name()
        row = row_of(command.name)
        made = split(command.words, row)
        command.options, command.operands = made.options, made.operands
        if command.name and "/" in command.words[0].text:
            self._file(command.words[0], row.name, is_named=True)
        if command.name in _READS_PROGRAMS and any(map(is_fetched, command.words)):
            self.bare("fetch-run", command.line)
        if command.name in _BUILTINS:
            _BUILTINS[command.name](self.reader, command, self.scope)
        self.redirects()
        for name, value in command.assigned:
            self._variable(name, value)
        if command.name in {"export", "declare", "typeset"}:
            for word in command.words[1:]:
                self.bare("variable", word.text)
        self._do(row, made)
        for part in self._subcommand(row):
            self._do(*part)
        if row.guessed and not command.wraps:
            self._do(table()["*"], made)

    def _do(self, row: Row, parts: Split) -> None:
        self.row, self.operands, self.given = row, parts.operands, parts.given
        asks = not self.command.options.keys().isdisjoint(("--help", "--version"))
        for step in row.does:
            if step.is_about_values and not self.given:
                continue
            if (not asks or step.kind in RUNS) and step.holds(self.command):
                getattr(self, step.method, self._on_files)(step, self._chosen(step))

    def _subcommand(self, row: Row) -> Iterator[tuple[Row, Split]]:
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
                command.operands = [*subs, *parts.operands]
                yield found, parts
                return

    def _name(self) -> None:
        """See what program it is: `$(command -v rm) x` runs rm."""
        command, first = self.command, self.command.words[0]
        named: list[Word] = []
        if len(first.inside) == 1 and (first.inside[0].name == "which" or "-v" in first.inside[0].options):
            named = [word for word in first.inside[0].operands if word.text and word.known]
        if len(named) == 1:
            command.words[0], command.name = named[0], named[0].text.rpartition("/")[2]
        elif is_fetched(first):
            self.bare("fetch-run", first.shown)
        else:
            self.reading.doubt(f"The name of the program is not known: `{first.shown}`.", command)

    def _variable(self, name: str, value: str) -> None:
        """It starts with this variable of its own."""
        self.bare("variable", f"{name}={value}")
        if name in _GIT_VARIABLES:
            self.do_program(None, [Word(value)])
        elif name in {"PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "PROMPT_COMMAND"}:
            probe = replace(self.scope, variables={}, odd="")
            self.reader.assign(name, value, probe)
            if probe.odd:
                self.reading.doubt(probe.odd, self.command)

    # The words of a step.

    def _chosen(self, step: Step) -> list[Word]:
        """The words that a step is about."""
        words = [word for name, word in self.given if name in step.options]
        if step.kind == "run" and any(" " in word.text for word in words):
            words = self._split(words)
        operands = self.operands[step.skips :] if step.skips else self.operands
        for choice in step.choices:
            words += _CHOICES[choice](self, operands)
        if step.match is not None:
            matched = _matched(words[:1] if step.kind == "run" else words, step.match)
            words = matched + words[1:] if matched and step.kind == "run" else matched
        return words or ([Word(step.default)] if step.default else [])

    def _split(self, words: Iterable[Word]) -> list[Word]:
        """The words in the values of options, as a shell splits them."""
        try:
            return [Word(text, inside=word.inside) for word in words for text in shlex.split(word.text)]
        except ValueError:
            self.reading.doubt("An option has a command that cannot be split.", self.command)
            return []

    def _option(self, names: frozenset[str]) -> str:
        return next((word.text for name, word in self.given if name in names), "")

    def _targets(self, operands: list[Word]) -> list[Word]:
        """What files are copied to: an option's value, or the last operand, and the one before what `xargs` may add."""
        if named := self._option(self.row.target):
            return [Word(named)]
        added = self.command.via[-1:] == ("xargs",) and operands and unknown(operands[-1].text)
        return operands[1:][-2 if added else -1 :]

    def _sources(self, operands: list[Word]) -> list[Word]:
        return operands if self._option(self.row.target) else operands[:-1]

    # What it does, by the kinds of steps.

    def _on_files(self, step: Step, words: list[Word]) -> None:
        command, base = self.command, self._option(step.within)
        kind = f"{step.kind}-tree" if step.tree and has(command, step.tree) else step.kind
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
                self.keep(word, command.feed.text)

    def do_connect(self, step: Step, words: list[Word]) -> None:
        """The words are hosts."""
        for word in words:
            self.host(step.kind, word.text, step.note)

    do_send = do_connect

    def do_look_up(self, step: Step, words: list[Word]) -> None:
        """The words are names of hosts, which can carry data out."""
        for word in words:
            if "." in word.text and any(one.name not in {"echo", "printf"} for one in word.inside):
                self.bare("dns-data", word.shown)
            elif word.variables and re.search(f"{UNKNOWN}[^.]*\\.", word.text):
                self.bare("dns-variable", word.shown)
        self.do_connect(step, words)

    def do_statement(self, step: Step, words: list[Word]) -> None:
        """The words are statements for a database."""
        for word in words:
            self.bare(step.kind, without_strings(word.text))

    def do_words_from(self, step: Step, words: list[Word]) -> None:
        """The words may be the output of commands, or have variables."""
        if any(word.inside or word.variables for word in words):
            self.bare(step.kind, " ".join(name for word in words for name in word.variables))

    def do_act(self, step: Step, words: list[Word]) -> None:
        """The step names an act, a doubt, or why the shell may mean something else by what follows."""
        if step.what and not words:
            return
        if step.kind == "act":
            self.bare(step.note)
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

    def do_shell(self, _step: Step, words: list[Word]) -> None:
        """Each word is a shell text."""
        changes: dict[str, Any] = {}
        if self.row.name in _SHELLS:
            changes["positional"] = [word.text for word in self.operands[2:]]
        for word in words:
            self.shell(word, **changes)

    def do_line(self, step: Step, words: list[Word]) -> None:
        """The words together are a shell text."""
        line = " ".join(filter(None, [step.note, *(one.text for one in words)]))
        word = Word(line, inside=tuple(one for word in words for one in word.inside))
        if step.kind == "eval" and word.known:
            self.reader.read(word.text, self.scope)
        elif words:
            self.shell(word)

    do_eval = do_line

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

    def do_script(self, step: Step, words: list[Word]) -> None:
        """Each word is a file with code."""
        for word in words:
            self._file(word, step.language or "sh")

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
            scope = self.inner().copy()
            scope.feed = None
            self._text(feed.text, language, scope)
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

    def _own(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The paths and texts of files of these names that the call or its session wrote, while they run."""
        files = self.files
        for cwd, name in itertools.product(self.scope.cwds[:2], names):
            path = self.places.real(name, cwd)
            text = files.text_of(path)
            if text is not None and path not in files.running and len(files.running) < 5:
                files.running.append(path)
                yield path, text
                files.running.pop()

    def do_arguments(self, step: Step, _words: list[Word]) -> None:
        """`xargs`, `parallel`: what they read become words of a command."""
        options, feed, words = self.command.options, self.command.feed or Feed(), self.operands
        at = next((at for at, word in enumerate(words) if word.text == ":::"), len(words))
        words, arguments = words[:at], words[at + 1 :] or None
        if arguments is None and feed.text is not None and not feed.file:
            separator = "\0" if options.keys() & {"-0", "--null"} else "\n" if options.keys() & {"-I", "-d"} else None
            arguments = [Word(one) for one in feed.text.split(separator)[:64] if one.strip()]
        elif feed.file is not None and feed.file.text == "/dev/null":
            arguments = []
        elif feed.commands:
            arguments = listed(feed.commands)
        if arguments is None:
            arguments = [Word('"${PICOHOOK_UNKNOWN}"' if step.note else UNKNOWN)]
        elif step.note and words:
            arguments = [replace(word, text=shlex.quote(word.text).translate(_UNQUOTED)) for word in arguments]
        arguments = [replace(word, inside=tuple(feed.commands)) for word in arguments]
        marked = has(self.command, _MARKED)
        mark = self._option(_MARKED) or ("{}" if step.note or marked or "-i" in options else "")
        if mark and any(mark in word.text for word in words):
            lines = [[filled(word, one, mark) for word in words] for one in arguments[:16] or [Word(mark)]]
        elif step.note:
            lines = [[*words, one] for one in arguments[:16]]
        else:
            lines = [[*words, *(() if marked else arguments)]] if words else []
        scope = self.inner()
        scope.feed = None
        for line in lines:
            if step.note:
                self.shell(Word(" ".join(word.text for word in line)))
            else:
                self.run(line, scope)

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
        names = [word.text for word in words] or ["Makefile", "makefile", "GNUmakefile"]
        for _, text in self._own([posixpath.join(self._option(step.within), name) for name in names]):
            lines = [line.lstrip("\t@-+ ") for line in text.replace("\\\n", " ").splitlines() if line.startswith("\t")]
            for line in (lines + re.findall(r"\$\(shell ([^)]*)\)", text))[:200]:
                plain = re.sub(r"\$[({](\w+)[)}]|\$[@<^?*]", "${PICOHOOK_UNKNOWN}", line).replace("$$", "$")
                self.reader.read(plain, self.inner().copy())

    def do_scripts(self, step: Step, words: list[Word]) -> None:
        """`npm`: the scripts of package.json."""
        name = words[1].text if len(words) > 1 and words[0].text in {"run", "run-script"} else words[0].text
        keys = [f"pre{name}", name, f"post{name}"]
        if name in {"install", "i", "ci", "add"}:
            keys += ["preinstall", "postinstall", "prepare"]
        script = re.compile(rf'"(?:{"|".join(map(re.escape, keys))})"\s*:\s*"((?:[^"\\]|\\.)*)"')
        for _, text in self._own([posixpath.join(self._option(step.within), "package.json")]):
            for found in script.findall(text):
                self.shell(Word(found.replace('\\"', '"').replace("\\\\", "\\")))


_CHOICES: dict[str, Callable[[Started, list[Word]], Iterable[Word]]] = {
    "operands": lambda _, operands: operands,
    "first": lambda _, operands: operands[:1],
    "rest": lambda _, operands: operands[1:],
    "sources": Started._sources,
    "target": Started._targets,
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


def without_strings(statement: str) -> str:
    """A statement for a database without its literal texts."""
    has_sql = re.search(r"(?i)\b(?:select|insert|update|delete|drop)\b", statement)
    return re.sub(r"'(?:[^']|'')*'", "''", statement) if has_sql else statement


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
    if command.name == "popd" or (command.name == "pushd" and not operands):
        scope.before, scope.cwds = before, (UNKNOWN,)
        return
    text = operands[0].text if operands else reader.home
    if text == "-" or (operands and operands[0].glob):
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


def _read(_reader: Reader, command: Command, scope: Scope) -> None:
    feed, array = command.feed, command.name != "read"
    names = [word.text for word in command.operands] or ["REPLY"]
    lines = feed.text.splitlines() if feed and feed.text is not None and len(names) == 1 and not array else []
    for name in names:
        scope.variables[name] = lines[0] if len(lines) == 1 else UNKNOWN
        scope.sources[name] = tuple(feed.commands) if feed else ()


def _alias(_reader: Reader, command: Command, scope: Scope) -> None:
    for word in command.operands:
        name, equals, value = word.text.partition("=")
        if equals and not unknown(value):
            scope.aliases[name] = value


_BUILTINS: dict[str, Callable[[Reader, Command, Scope], None]] = {
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    "set": _set,
    "shift": _shift,
    "alias": _alias,
}
