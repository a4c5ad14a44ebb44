"""Programs: how their words are read, and which of them run other commands. The table is `programs.toml`."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import code, effects
from .call_files import CallFiles
from .listing import filled, found, listed
from .names import listed as named
from .reading import Act, Command, Feed
from .rows import DOCKER_RUN, row_of, split
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .places import Places
    from .reader import Reader, Scope
    from .rows import Row

FETCHERS = named("fetchers")
"""Programs whose output somebody else writes."""
_SAFE_EVAL = named("safe-eval")
_READS_PROGRAMS = named("reads-programs")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_MARKS = str.maketrans(
    {UNKNOWN: "${PICOHOOK_UNKNOWN}", OPEN: "${PICOHOOK_UNKNOWN}", DEFENDED: "${PICOHOOK_UNKNOWN}", PLAIN: "x"}
)
_GIT_RUNS = re.compile(
    r"alias\..*|core\.(?:sshcommand|fsmonitor|editor|hookspath|pager|gitproxy|askpass)|sequence\.editor|diff\..*|credential\..*|pager\..*"
    r"|(?:merge|diff)tool\..*|filter\..*|gpg\..*|uploadpack\..*|protocol\..*|include.*|http\.proxy|url\..*|interactive\.difffilter",
    re.IGNORECASE,
)
_GIT_VARIABLES = named("git-variables")
_HARMLESS_EDITORS = named("harmless-editors")
REMOTE = frozenset(("ssh", "docker", "podman", "nerdctl", "kubectl", "oc", "k"))
"""Programs that run commands on another machine, or in a container."""


def is_input(path: str) -> bool:
    """Whether a path, in any spelling, names the standard input or another descriptor."""
    plain = (
        os.path.normpath("/" + re.sub(r"^/+proc/self/root(?=/)", "", path).lstrip("/"))
        if path.startswith("/")
        else path
    )
    return plain == "/dev/stdin" or plain.startswith(("/dev/fd/", "/proc/self/fd/"))


class Programs:
    """Follows the commands of one call into the commands that they run."""

    def __init__(self, places: Places, written: Callable[[str], str | None] | None = None) -> None:
        """`written` returns the text of a file that this session wrote; None if it wrote no such file."""
        self.files = CallFiles(places)
        self._written = written or (lambda _: None)
        self._running: list[str] = []

    def started(self, reader: Reader, command: Command, scope: Scope) -> None:
        """A command starts: note what it does, and read what it runs."""
        name = command.name
        row = row_of(name)
        command.options, command.operands = split(command.words, row)
        command.starts = min(row.subs, len(command.operands))
        if not name and self._found_name(command):
            self.started(reader, command, scope)
            return
        if not name:
            self._unknown_name(reader, command)
            name, row = command.name, row_of(command.name)
        elif "/" in command.words[0].text and not row.runs:
            self._file(reader, command, scope, command.words[0], row.name or "", first_word=True)
        if name in _READS_PROGRAMS and any(one.name in FETCHERS for word in command.words for one in word.inside):
            self.act(reader, "fetch-run", command, command.line)
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            builtin(reader, command, scope)
        for variable, value in command.assigned:
            if variable in _GIT_VARIABLES and value not in _HARMLESS_EDITORS:
                self.program_of_git(reader, command, value, scope)
            elif variable in {"PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "PROMPT_COMMAND"}:
                probe = replace(scope, odd="")
                reader.assign(variable, value, probe)
                scope.variables.pop(variable, None)
                if probe.odd:
                    reader.reading.doubt(probe.odd, command)
        if row.runs and row.unless.isdisjoint(command.options):
            _RUNS[row.runs](self, reader, command, scope, row)
        effects.note(self.files, reader.reading, command, row)

    def inner(self, scope: Scope, command: Command, **changes: Any) -> Scope:
        """The scope of a command that this one starts."""
        return replace(scope, via=(*scope.via, command.name), feed=command.feed, functions={}, aliases={}, **changes)

    def run(self, reader: Reader, command: Command, words: Sequence[Word], scope: Scope) -> None:
        """A command runs another one."""
        if len(scope.via) > 8:
            reader.reading.doubt("Too many programs start each other.", command)
        elif words:
            command.wraps = True
            inner = self.inner(scope, command)
            reader.execute(list(words), inner)

    def text(self, reader: Reader, command: Command, word: Word, scope: Scope, by: str = "", **changes: Any) -> None:
        """A command runs a shell text."""
        by = by or command.name
        if word.inside and any(one.name in FETCHERS for one in word.inside):
            self.act(reader, "fetch-run", command, word.shown)
        known = word.text.translate(_MARKS) if unknown(word.text) else word.text
        if known.replace("${PICOHOOK_UNKNOWN}", "").strip(" \t\n'\""):
            inner = self.inner(scope, command, **changes).copy()
            inner.variables.pop("PICOHOOK_UNKNOWN", None)
            reader.read(known, inner)
        if unknown(word.text.replace(PLAIN, "")) and not (
            word.inside and all(one.name in _SAFE_EVAL for one in word.inside)
        ):
            reader.reading.doubt(f"`{by}` runs a text that is not known.", command)

    def act(self, reader: Reader, kind: str, command: Command, detail: str = "") -> None:
        """Note an act that has no path."""
        reader.reading.acts.append(Act(kind, effects.NOWHERE, command, detail))

    def program_of_git(self, reader: Reader, command: Command, text: str, scope: Scope) -> None:
        """A setting names a program that git runs."""
        if not text.startswith(("ssh ", "less", "cat", "true", "false", "vim", "nano", "code ", "delta")):
            self.act(reader, "git-runs", command, text)
        self.text(reader, command, Word(text), scope)

    def _unknown_name(self, reader: Reader, command: Command) -> None:
        first = command.words[0]
        if any(one.name in FETCHERS for one in first.inside):
            self.act(reader, "fetch-run", command, first.shown)
        else:
            reader.reading.doubt(f"The name of the program is not known: `{first.shown}`.", command)

    @staticmethod
    def _found_name(command: Command) -> bool:
        """`$(command -v rm) x` runs rm: gives the command this name, and returns whether there is one."""
        inside = command.words[0].inside
        if len(inside) != 1 or inside[0].name not in {"which", "command"} or len(inside[0].operands) != 1:
            return False
        if inside[0].name == "command" and "-v" not in inside[0].options:
            return False
        found = inside[0].operands[0].text
        if unknown(found) or not found:
            return False
        command.words[0] = Word(found)
        command.name = found.rpartition("/")[2]
        return True

    # Files that run.

    def path(self, word: Word, cwd: str) -> str:
        """The absolute path of a word."""
        return self.files.places.real(word.text, cwd)

    def _file(
        self, reader: Reader, command: Command, scope: Scope, word: Word, language: str, *, first_word: bool = False
    ) -> None:
        """A command runs a file: read its text if this session wrote it."""
        if unknown(word.text) and not first_word:
            lists = listed(word.inside) if word.inside else None
            if lists is None and not (word.glob or UNKNOWN not in word.text.rpartition("/")[2]):
                reader.reading.doubt(f"It is not known which file `{command.name}` runs.", command)
            return
        for cwd in scope.cwds[:2]:
            path = self.path(word, cwd)
            if path in self.files.fetched:
                self.act(reader, "fetch-run", command, word.shown)
                return
            text = self.files.texts[path] if path in self.files.texts else self._written(path)
            if text == UNKNOWN:
                reader.reading.doubt(f"`{word.shown}` was written before, and its text is not known.", command)
                continue
            if text is None or path in self._running or len(self._running) > 4:
                continue
            self._running.append(path)
            kind = _language(path, text) or language
            if kind in {"sh", "source"} or (not kind and first_word):
                reader.read(text, scope if kind == "source" else self.inner(scope, command).copy())
            else:
                code.note(self, reader, command, scope, language=kind or language, text=text)
            self._running.pop()

    def _fed(self, reader: Reader, command: Command, scope: Scope, language: str) -> None:
        """An interpreter reads its program from its input."""
        feed = command.feed
        if feed is None:
            if command.name and language == "sh" and not command.operands and "-i" not in command.options:
                self.act(reader, "shell", command)
            return
        if any(one.name in FETCHERS for one in feed.commands):
            self.act(reader, "fetch-run", command, " | ".join(one.line for one in feed.commands)[:120])
        elif feed.text is not None:
            inner = self.inner(scope, command).copy()
            inner.feed = None
            if language == "sh":
                reader.read(feed.text, inner)
            else:
                code.note(self, reader, command, inner, language=language, text=feed.text)
        elif feed.file is not None:
            self._file(reader, command, scope, feed.file, language)
        elif feed.commands and all(one.name == "cat" and not one.via for one in feed.commands):
            for one in feed.commands[-1].operands:
                self._file(reader, command, scope, one, language)
        else:
            reader.reading.doubt(f"`{command.name}` runs a text that is not known.", command)

    # What programs run. Each is named in `programs.toml`.

    def _rest(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        words = command.operands[row.skip :]
        if row.name == "flock" and (text := command.options.get("-c")):
            self.text(reader, command, Word(text), scope)
        if row.name == "env":
            text = command.options.get("-S") or command.options.get("--split-string")
            if text is not None:
                try:
                    words = [*[Word(one) for one in shlex.split(text)], *words]
                except ValueError:
                    reader.reading.doubt("`env -S` gets a text that cannot be split.", command)
        if row.name == "flock" and words and words[0].text in {"-c", "--command"}:
            self.text(reader, command, words[1] if len(words) > 1 else Word(""), scope)
            return
        directory = command.options.get("-C" if row.name == "env" else "-D") or command.options.get("--chdir")
        if directory is not None and row.name in {"env", "sudo"}:
            scope = replace(scope, cwds=tuple(_joined(cwd, directory) for cwd in scope.cwds))
        assigned: list[tuple[str, str]] = []
        while row.assign and words and (found := _ASSIGNED.fullmatch(words[0].text)):
            assigned.append((found[1], found[2]))
            words = words[1:]
        if row.name in {"exec", "sudo"} and not words:
            return
        if command.name in {"builtin", "command"} and words and words[0].text in _BUILTINS:
            command.wraps = True
            reader.execute(list(words), scope)  # the same shell runs it
            return
        if words and words[0].text == "-" and row.name == "env":
            words = words[1:]
        if assigned and words:
            command.wraps = True
            inner = self.inner(scope, command)
            reader.execute(list(words), inner, (), tuple(assigned))
        else:
            self.run(reader, command, words, scope)

    def _after_dashes(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        texts = [word.text for word in command.words]
        if "--" in texts and (
            command.name not in REMOTE or "exec" in texts[:4] or "run" in texts[:4] or "debug" in texts[:4]
        ):
            self.run(reader, command, command.words[texts.index("--") + 1 :], scope)
        elif command.name == "bwrap":
            self.run(reader, command, command.operands, scope)

    def _after_run(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        """`uv run`, `poetry run`: the command follows, after options of `run`."""
        texts = [word.text for word in command.words]
        if len(command.operands) > 1 and command.operands[0].text in {"run", "exec"}:
            at = texts.index(command.operands[0].text) + 1
            valued = {f"--{one}" for one in row.long} | {f"-{one}" for one in row.values}
            while at < len(texts) and texts[at].startswith("-"):
                if texts[at] == "--":
                    at += 1
                    break
                at += 2 if texts[at] in valued else 1
            self.run(reader, command, command.words[at:], scope)

    def _joined_words(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        word = Word(
            " ".join(one.text for one in command.operands),
            inside=tuple(inside for one in command.operands for inside in one.inside),
        )
        if row.name in {"eval", "iex"}:
            if not unknown(word.text):
                reader.read(word.text, scope)
            else:
                self.text(reader, command, word, scope)
        else:
            self.text(reader, command, word, scope)

    def _text_option(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        """An option's value is a shell text."""
        texts = [word.text for word in command.words]
        for option in row.text:
            if option == "-TT" and option in texts[:-1]:
                self.text(reader, command, Word(texts[texts.index(option) + 1]), scope)
            elif option in command.options:
                self.text(reader, command, Word(command.options[option]), scope)
        if row.name in {"su", "runuser"}:
            user, *rest = [word for word in command.operands if word.text != "-"] or [Word("root")]
            del user
            if "-u" in command.options:
                self.run(reader, command, command.operands, scope)
            elif rest:
                self._file(reader, command, scope, rest[0], "sh")

    def _shell(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        options, operands = command.options, command.operands
        while operands and operands[0].text[:1] == "+":
            operands = operands[1:]
        if "--version" in options or "--help" in options:
            return
        if "-c" in options:
            if not operands:
                return
            positional = [word.text for word in operands[2:]]
            self.text(reader, command, operands[0], scope, positional=positional)
            self._settings(reader, command)
        elif "-n" in options:
            return
        elif operands and operands[0].text != "-" and "-s" not in options:
            script = operands[0]
            if is_input(script.text):
                self._process(reader, command, scope, script, "sh")
            else:
                self._file(reader, command, scope, script, "sh")
        else:
            self._fed(reader, command, scope, "sh")

    def _process(self, reader: Reader, command: Command, scope: Scope, word: Word, language: str) -> None:
        """A file is the output of other commands: `bash <(...)`."""
        text = reader.output(word.inside, scope)
        feed = Feed(list(word.inside), text) if word.inside else command.feed
        self._fed(reader, replace(command, feed=feed), scope, language)

    def _settings(self, reader: Reader, command: Command) -> None:
        if "--rcfile" in command.options or "--init-file" in command.options:
            reader.reading.doubt("A shell reads a file of settings first.", command)

    def _other_shell(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        if command.name == "zsh":
            before = len(reader.reading.commands)
            self._shell(reader, command, scope, row)
            text = " ".join(word.text for word in command.operands)
            made = reader.reading.commands[before:]
            odd = re.search(r"(?:^|[\s;&|])=\w|\*\(|\$\{\(|noglob|nocorrect|repeat |&!|=\(|\$\w", text)
            if not odd and (made or "-c" not in command.options):
                return
        if (
            command.operands
            or command.options.keys() & {"-c", "-C", "-Command", "-EncodedCommand", "-command", "-enc"}
            or command.feed
        ):
            reader.reading.doubt(f"Guards do not read {command.name}.", command)

    def _source(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        if not command.operands:
            return
        word = command.operands[0]
        if is_input(word.text):
            self._process(reader, command, scope, word, "sh")
        else:
            self._file(reader, command, scope, word, "source")

    def _trap(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        if len(command.operands) > 1 and command.operands[0].text not in {"", "-"}:
            self.text(reader, command, command.operands[0], scope)

    def _code(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        language = row.name
        texts = [command.options[option] for option in row.code if option in command.options]
        if language == "perl":  # several -e
            texts += [
                word.text[2:] for word in command.words[1:] if word.text.startswith(("-e", "-E")) and word.text[2:]
            ]
        if texts:
            for text in dict.fromkeys(texts):
                inside = next((word.inside for word in command.words if word.text == text), ())
                if any(one.name in FETCHERS for one in inside):
                    self.act(reader, "fetch-run", command, text[:60])
                code.note(self, reader, command, scope, language=language, text=text, operands=command.operands)
            return
        module = command.options.get("-m") if language == "python" else None
        if module is not None:
            self._module(reader, command, scope, module)
        elif (
            command.options.keys() & {"--version", "-V", "-v", "--help", "-h", "--check", "-c"} and not command.operands
        ):
            return
        elif command.operands and command.operands[0].text != "-":
            script = command.operands[0]
            if is_input(script.text):
                self._process(reader, command, scope, script, language)
            else:
                self._file(reader, command, scope, script, language)
        elif command.feed is not None or command.operands:
            self._fed(reader, command, scope, language)

    def _module(self, reader: Reader, command: Command, scope: Scope, module: str) -> None:
        if module in {
            "pip",
            "pip3",
            "pipx",
            "uv",
            "poetry",
            "awscli",
            "httpie",
            "twine",
            "picohook",
            "venv",
            "ensurepip",
        }:
            words = command.words
            at = next(at for at, word in enumerate(words) if word.text.endswith(module) and at)
            self.run(reader, command, [Word(module), *words[at + 1 :]], scope)

    def _bun(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        if command.operands and command.operands[0].text in {"x", "exec"}:
            self.run(reader, command, command.operands[1:], scope)
        elif not command.operands or command.operands[0].text not in {
            "run",
            "install",
            "add",
            "test",
            "i",
            "build",
            "remove",
            "create",
            "pm",
        }:
            self._code(reader, command, scope, row)

    def _awk(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        texts = [command.options[one] for one in ("-e", "--source") if one in command.options]
        if not texts and "-f" not in command.options and "--file" not in command.options and command.operands:
            texts = [command.operands[0].text]
        for text in texts:
            code.awk(self, reader, command, scope, text)

    def _sed(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        text = command.options.get("-e") or command.options.get("--expression") or ""
        if not text and "-f" not in command.options and command.operands:
            text = command.operands[0].text
        code.sed(self, reader, command, scope, text)

    def _editor(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        texts = [
            value
            for option, value in command.options.items()
            if option in {"-c", "--cmd", "-ex", "-eval-command", "--eval", "--eval-command"}
        ]
        texts += [word.text[1:] for word in command.words[1:] if word.text.startswith("+")]
        if row.name == "ed" and command.feed and command.feed.text:
            texts += command.feed.text.splitlines()
        for text in texts:
            found = re.search(r"(?:!|\bshell\b|system\(|shell-command)\s*(.*)", text)
            if found:
                self.text(reader, command, Word(found[1].strip("\"')(")), scope)

    def _xargs(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        words = list(command.operands)
        if not words:
            return
        feed = command.feed or Feed()
        options = command.options
        arguments: list[Word] | None = None
        if feed.text is not None and not feed.file:
            if "-0" in options or "--null" in options:
                pieces = [one for one in feed.text.split("\0") if one.strip()]
            else:
                pieces = feed.text.splitlines() if "-I" in options or "-d" in options else feed.text.split()
            arguments = [Word(one) for one in pieces[:64]]
        elif feed.file is not None and feed.file.text == "/dev/null":
            arguments = []
        elif feed.commands:
            arguments = listed(feed.commands)
        sources = tuple(feed.commands)
        arguments = (
            [replace(word, inside=sources) for word in arguments]
            if arguments is not None
            else [Word(UNKNOWN, inside=sources)]
        )
        mark = (
            options.get("-I")
            or options.get("--replace")
            or next(
                (
                    text[2:] or "{}"
                    for text in (word.text for word in command.words)
                    if text.startswith("-i") and text != "-in"
                ),
                "",
            )
        )
        if "-I" in options or "--replace" in options:
            mark = mark or "{}"
            made = [
                Word(word.text.replace(mark, arguments[0].text) if arguments else word.text, word.glob, sources)
                if mark in word.text
                else word
                for word in words
            ]
            if len(arguments) > 1 and feed.text is not None:
                for one in arguments[1:8]:
                    self.run(
                        reader, command, [Word(w.text.replace(mark, one.text), w.glob, w.inside) for w in words], scope
                    )
        else:
            made = [*words, *arguments]
        command.wraps = True
        inner = self.inner(scope, command)
        inner.feed = None
        reader.execute(made, inner)

    def _parallel(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        texts = [word.text for word in command.operands]
        at = texts.index(":::") if ":::" in texts else len(texts)
        for one in (texts[at + 1 :] or ['"${PICOHOOK_UNKNOWN}"'])[:16]:
            line = " ".join(texts[:at])
            line = line.replace("{}", one) if "{}" in line else f"{line} {one}"
            self.text(reader, command, Word(line), scope)

    def _find(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        words = command.words
        at = 1
        while at < len(words):
            if words[at].text in {"-exec", "-execdir", "-ok", "-okdir"}:
                end = next(
                    (place for place in range(at + 1, len(words)) if words[place].text in {";", "+"}), len(words)
                )
                for one in found(command) or [Word(UNKNOWN)]:
                    made = [filled(word, one) for word in words[at + 1 : end]]
                    command.wraps = True
                    reader.execute(made, self.inner(scope, command))
                at = end
            at += 1

    def _fd(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        texts = [word.text for word in command.words]
        at = next((texts.index(one) for one in ("-x", "-X", "--exec", "--exec-batch") if one in texts), 0)
        if at:
            name = Word(PLAIN)
            made = [filled(word, name) for word in command.words[at + 1 :]]
            if not any("{" in word.text for word in command.words[at + 1 :]):
                made.append(name)
            reader.execute(made, self.inner(scope, command))

    def _ssh(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        for word in command.words[1:]:
            found = re.match(r"(?i)(?:-o)?\s*(?:proxycommand|localcommand|knownhostscommand)[= ]\s*(.*)", word.text)
            if found and found[1].split() and found[1].split()[0] not in {"ssh", "none", "nc", "cloudflared", "aws"}:
                self.program_of_git(reader, command, found[1], scope)
        words = command.operands[1:]
        if words:
            text = " ".join(word.text for word in words)
            self.text(reader, command, Word(text, inside=tuple(one for word in words for one in word.inside)), scope)
        elif command.feed is not None and command.operands and command.feed.text:
            self.text(reader, command, Word(command.feed.text), scope)

    def _docker(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        words = command.operands
        while words and words[0].text in {"compose", "container"}:
            words = words[1:]
        if not words or words[0].text not in {"run", "exec", "create"}:
            return
        kind = words[0].text
        texts = [word.text for word in command.words]
        at = texts.index(kind)
        options, operands = split(command.words[at:], DOCKER_RUN)
        command.options |= options
        command.options |= {
            f"{option}={value}": ""
            for option, value in zip(texts[at:], texts[at + 1 :], strict=False)
            if option
            in {"-v", "--volume", "--mount", "--cap-add", "--security-opt", "--pid", "--net", "--network", "--device"}
        }
        self.run(reader, command, operands[1:], scope)
        if "--entrypoint" in options:
            self.run(reader, command, [Word(options["--entrypoint"]), *operands[1:]], scope)

    def _git(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        texts = [word.text for word in command.words]
        for option, setting in itertools.pairwise(texts):
            if option in {"-c", "--config-env"} and "=" in setting:
                key, _, value = setting.partition("=")
                if _GIT_RUNS.fullmatch(key) and value not in _HARMLESS_EDITORS:
                    self._git_setting(reader, command, scope, key.lower(), value)
        if not command.operands:
            return
        sub = command.operands[0].text
        for text in texts:
            name, _, value = text.partition("=")
            if name in {"--upload-pack", "--receive-pack", "--exec"} and value:
                self.program_of_git(reader, command, value, scope)
            elif text.startswith("ext::"):
                self.program_of_git(reader, command, text[5:].replace("%S", "").replace("%", ""), scope)
        at = texts.index(sub)
        following = texts[at + 1 :]
        if sub == "rebase":
            runs = [b for a, b in itertools.pairwise(following) if a in {"-x", "--exec"}]
            for text in runs:
                self.text(reader, command, Word(text), scope)
        elif sub == "bisect" and following[:1] == ["run"]:
            self.run(reader, command, command.words[at + 2 :], scope)
        elif sub == "submodule" and "foreach" in following:
            self.text(
                reader,
                command,
                Word(" ".join(t for t in following[following.index("foreach") + 1 :] if t != "--recursive")),
                scope,
            )
        elif sub in {"filter-branch", "filter-repo"}:
            return
        elif sub == "clone" and "-u" in following[:-1]:
            self.program_of_git(reader, command, following[following.index("-u") + 1], scope)
        elif sub == "grep" and (pager := next((t[2:] for t in following if t.startswith("-O") and t[2:]), "")):
            self.program_of_git(reader, command, pager, scope)
        elif sub == "difftool" and (
            tool := next((t.partition("=")[2] for t in following if t.startswith("--extcmd=")), "")
        ):
            self.program_of_git(reader, command, tool, scope)

    def _git_setting(self, reader: Reader, command: Command, scope: Scope, key: str, value: str) -> None:
        if value.startswith("!"):
            self.program_of_git(reader, command, value[1:], scope)
        elif key.startswith("alias."):
            words = [Word("git"), *[Word(one) for one in value.split()]]
            self.run(reader, command, words, scope)
        elif key.startswith(
            ("core.", "sequence.", "diff.", "pager.", "credential.", "gpg.", "interactive.", "filter.")
        ):
            if value in {"false", "true", "auto", "never", "always"} or re.fullmatch(r"diff\.(?!external)[a-z]+", key):
                return
            if key.startswith(("core.hookspath", "credential.helper")):
                return
            self.program_of_git(reader, command, value, scope)
        elif key.startswith(("protocol.ext", "include", "difftool", "mergetool", "uploadpack", "url.")):
            reader.reading.doubt(f"A setting of git may run a program: {key}.", command)

    def _make(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        for word in command.words[1:]:
            for text in re.findall(r"\$\(shell ([^)]*)\)", word.text):
                self.text(reader, command, Word(text), scope)
            if word.text.startswith(("SHELL=", "MAKEFLAGS=")):
                reader.reading.doubt("`make` gets another shell.", command)
        if value := command.options.get("--eval"):
            self.text(reader, command, Word(value.partition("shell ")[2].rstrip(")") or value.partition(":")[2]), scope)
        directory = command.options.get("-C") or command.options.get("--directory") or "."
        names = [command.options.get("-f") or command.options.get("--file") or "Makefile", "makefile", "GNUmakefile"]
        for cwd in scope.cwds[:2]:
            for name in names:
                path = self.files.places.real(posixpath.join(directory, name), cwd)
                text = self.files.texts.get(path) or self._written(path)
                if text is not None and path not in self._running:
                    self._running.append(path)
                    self._recipes(reader, command, scope, text)
                    self._running.pop()

    def _recipes(self, reader: Reader, command: Command, scope: Scope, text: str) -> None:
        lines = [line.lstrip("\t@-+ ") for line in text.replace("\\\n", " ").splitlines() if line.startswith("\t")]
        lines += re.findall(r"\$\(shell ([^)]*)\)", text)
        for line in lines[:200]:
            plain = re.sub(r"\$[({](\w+)[)}]|\$[@<^?*]", "${PICOHOOK_UNKNOWN}", line).replace("$$", "$")
            inner = self.inner(scope, command).copy()
            reader.read(plain, inner)

    def _npm(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        words = command.operands
        if not words:
            return
        sub = words[0].text
        if sub in {"exec", "x", "dlx"}:
            if text := command.options.get("-c") or command.options.get("--call"):
                self.text(reader, command, Word(text), scope)
            texts = [word.text for word in command.words]
            at = texts.index("--") + 1 if "--" in texts else texts.index(sub) + 1
            while at < len(texts) and texts[at].startswith("-"):
                at += 1
            self.run(reader, command, command.words[at:], scope)
            return
        usual = {"install", "i", "ci", "add", "test", "start", "stop", "restart", "t", "build"}
        if row.name == "yarn" and sub not in usual and sub != "run":
            self._yarn_binary(reader, command, scope)
        name = words[1].text if sub in {"run", "run-script"} and len(words) > 1 else sub
        for cwd in scope.cwds[:2]:
            path = self.files.places.real(posixpath.join(command.options.get("--prefix") or "", "package.json"), cwd)
            text = self.files.texts.get(path) or self._written(path)
            if text is None or path in self._running:
                continue
            self._running.append(path)
            for key in (
                f"pre{name}",
                name,
                f"post{name}",
                *(("preinstall", "postinstall", "prepare") if sub in usual else ()),
            ):
                for script in re.findall(rf'"{re.escape(key)}"\s*:\s*"((?:[^"\\]|\\.)*)"', text):
                    plain = script.replace('\\"', '"').replace("\\\\", "\\")
                    self.text(reader, command, Word(plain), scope)
            self._running.pop()

    def _yarn_binary(self, reader: Reader, command: Command, scope: Scope) -> None:
        if row_of(command.operands[0].text).effect.startswith("remove"):
            self.run(reader, command, command.operands, scope)

    def _npx(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        if text := command.options.get("-c") or command.options.get("--call"):
            self.text(reader, command, Word(text), scope)
        if command.operands:
            first = command.operands[0]
            name = re.sub(r"(?<=.)@[\w.^~-]+$", "", first.text)
            self.run(reader, command, [replace(first, text=name), *command.operands[1:]], scope)

    def _tar(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        for option, value in command.options.items():
            if option in {
                "--to-command",
                "--use-compress-program",
                "-I",
                "--rsh-command",
                "--info-script",
                "--new-volume-script",
                "-F",
            }:
                self.text(reader, command, Word(value), scope)
            elif option == "--checkpoint-action" and value.startswith("exec="):
                self.text(reader, command, Word(value[5:]), scope)

    def _tmux(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        sub = command.operands[0].text if command.operands else ""
        texts = [word.text for word in command.words]
        if sub in {"send-keys", "send"}:
            keys = [
                text
                for text in texts[texts.index(sub) + 1 :]
                if text not in {"Enter", "C-m", "C-c", "C-d", "C-z", "Escape", "-l"}
            ]
            if "-t" in keys:
                del keys[keys.index("-t") : keys.index("-t") + 2]
            self.text(reader, command, Word(" ".join(keys)), scope)
        elif sub in {
            "new",
            "new-session",
            "new-window",
            "neww",
            "split-window",
            "splitw",
            "run-shell",
            "run",
            "respawn-pane",
        }:
            rest = texts[texts.index(sub) + 1 :]
            while rest and rest[0].startswith("-"):
                rest = rest[2:] if rest[0][-1] in "snctxyeFlp" else rest[1:]
            if rest:
                self.text(reader, command, Word(" ".join(rest)), scope)

    def _each(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        for word in command.operands:
            self.text(reader, command, word, scope)

    def _later(self, reader: Reader, command: Command, scope: Scope, row: Row) -> None:
        del row
        if command.feed is not None:
            self._fed(reader, command, scope, "sh")
        if name := command.options.get("-f"):
            self._file(reader, command, scope, Word(name), "sh")


def _language(path: str, text: str) -> str:
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        name = first.split("/")[-1].split()[-1] if first.split() else ""
        row = row_of(name)
        return "sh" if row.name in {"sh", "zsh"} else row.name
    ending = path.rpartition(".")[2]
    return {
        "py": "python",
        "js": "node",
        "mjs": "node",
        "cjs": "node",
        "ts": "node",
        "pl": "perl",
        "rb": "ruby",
        "php": "php",
        "sh": "sh",
        "bash": "sh",
    }.get(ending, "")


def _joined(cwd: str, directory: str) -> str:
    if unknown(directory):
        return UNKNOWN
    return (
        posixpath.normpath(posixpath.join(cwd, directory))
        if UNKNOWN not in cwd or directory.startswith("/")
        else UNKNOWN
    )


# Commands of the shell itself that change what it knows.


def _cd(reader: Reader, command: Command, scope: Scope) -> None:
    operands = [word for word in command.operands if word.text]
    if command.name == "popd" or (command.name == "pushd" and not operands):
        scope.before, scope.cwds = scope.cwds, (UNKNOWN,)
        return
    text = operands[0].text if operands else reader.home
    if len(command.words) > 1 and command.words[1].text == "-":
        text = UNKNOWN
    if operands and operands[0].glob:
        text = UNKNOWN
    before = scope.cwds
    scope.cwds = tuple(dict.fromkeys(_joined(cwd, text) for cwd in scope.cwds))
    if scope.strict or all(UNKNOWN not in cwd and Path(cwd).is_dir() for cwd in scope.cwds):
        return
    scope.before = before


def _set(_reader: Reader, command: Command, scope: Scope) -> None:
    if "-e" in command.options:
        scope.strict = True
    if command.operands and "-o" not in command.options:
        scope.positional = [word.text for word in command.operands]


def _shift(_reader: Reader, _command: Command, scope: Scope) -> None:
    if scope.positional:
        scope.positional = scope.positional[1:]


def _read(_reader: Reader, command: Command, scope: Scope) -> None:
    names = [word.text for word in command.operands] or ["REPLY"]
    feed = command.feed
    known = feed.text.split("\n") if feed is not None and feed.text is not None else None
    for name in names:
        scope.variables[name] = (
            tuple(dict.fromkeys(line for line in known[:6] if line)) or UNKNOWN
            if known and len(names) == 1
            else UNKNOWN
        )
        scope.sources[name] = tuple(feed.commands) if feed else ()


def _alias(_reader: Reader, command: Command, scope: Scope) -> None:
    for word in command.operands:
        name, equals, value = word.text.partition("=")
        if equals and not unknown(value):
            scope.aliases[name] = value


def _odd(_reader: Reader, command: Command, scope: Scope) -> None:
    if command.name == "hash" and "-p" in command.options:
        scope.odd = "The line changes where programs are found."
    elif command.name == "enable" and "-n" in command.options:
        scope.odd = "The line turns off commands of the shell."
    elif command.name == "coproc":
        scope.odd = "A coprocess is not read."
    elif command.name in {"mapfile", "readarray"}:
        for word in command.operands:
            scope.variables[word.text] = UNKNOWN
            scope.arrays[word.text] = [Word(UNKNOWN)]
            scope.sources[word.text] = tuple(command.feed.commands) if command.feed else ()
    elif command.name == "printf" and "-v" in command.options:
        return


def _coproc(reader: Reader, command: Command, _scope: Scope) -> None:
    reader.reading.doubt("A coprocess is not read.", command)


_BUILTINS: dict[str, Callable[[Reader, Command, Scope], None]] = {
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "set": _set,
    "shift": _shift,
    "read": _read,
    "alias": _alias,
    "hash": _odd,
    "enable": _odd,
    "mapfile": _odd,
    "readarray": _odd,
    "coproc": _coproc,
}
_RUNS: dict[str, Callable[[Programs, Reader, Command, Scope, Row], None]] = {
    "rest": Programs._rest,
    "after-dashes": Programs._after_dashes,
    "after-run": Programs._after_run,
    "joined": Programs._joined_words,
    "text-option": Programs._text_option,
    "shell": Programs._shell,
    "other-shell": Programs._other_shell,
    "source": Programs._source,
    "trap": Programs._trap,
    "code": Programs._code,
    "bun": Programs._bun,
    "awk": Programs._awk,
    "sed": Programs._sed,
    "editor": Programs._editor,
    "xargs": Programs._xargs,
    "parallel": Programs._parallel,
    "find": Programs._find,
    "fd": Programs._fd,
    "ssh": Programs._ssh,
    "docker": Programs._docker,
    "git": Programs._git,
    "make": Programs._make,
    "npm": Programs._npm,
    "npx": Programs._npx,
    "tar": Programs._tar,
    "tmux": Programs._tmux,
    "each": Programs._each,
    "later": Programs._later,
}
