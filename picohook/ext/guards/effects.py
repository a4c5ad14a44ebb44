"""What a command does with files and hosts, as acts, and the commands and texts that it runs."""

import os.path
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .expansion import Scope
from .listing import listed
from .names import listed as named
from .places import Target, host_of
from .reader import Reader
from .reading import Act, Command
from .syntax import TooMuchError
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

MOST_ACTS = 2_000
NOWHERE = Target("", "")
FETCHERS = named("fetchers")
"""Programs whose output somebody else writes."""
_SAVERS = frozenset(("curl", "wget"))
_REMOTE = named("remote")
"""Programs that run commands on another machine, or in a container."""
_PRINTERS = named("printers")
_MARKS = str.maketrans(
    {UNKNOWN: "${PICOHOOK_UNKNOWN}", OPEN: "${PICOHOOK_UNKNOWN}", DEFENDED: "${PICOHOOK_UNKNOWN}", PLAIN: "x"}
)
_SAFE_EVAL = named("safe-eval")
_NET_PATH = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/(.*)", re.DOTALL)
_ONE_FILE = re.compile(
    r"(?:.*/)?[\w-][\w.-]*\.(?:json|lock|txt|log|md|py|js|ts|tsx|toml|ya?ml|xml|csv|tgz|gz|zip|tmp|bak|out|o|a|so|pyc|db|sqlite3?|html|css|sh|png|pdf)"
)


class Effects:
    """Notes what one command does, and reads what it runs."""

    def __init__(self, reader: Reader, command: Command, scope: Scope) -> None:
        self.reader, self.command, self.scope = reader, command, scope
        self.files, self.places, self.reading = reader.files, reader.files.places, reader.reading
        self._elsewhere = not _REMOTE.isdisjoint(command.via)

    def act(self, kind: str, word: Word, detail: str = "") -> None:
        """Note an act on a file, wherever the command may run."""
        if not word.text:
            return
        if len(self.reading.acts) > MOST_ACTS:
            raise TooMuchError("it does too many things")
        plain = word.inside and word.text[:1] in {UNKNOWN, OPEN} and "/" not in word.text
        link = kind in {"delete", "delete-tree", "move"} or detail == "link"
        for one in (listed(word.inside) if plain else None) or (word,):
            for cwd in self.command.cwds:
                target = self.places.target(one.text, cwd, glob=one.glob, link=link)
                if self._elsewhere and target.place != "null":
                    place = target.place if target.place in {"root", "home", "system"} else "elsewhere"
                    target = target._replace(place=f"remote-{place}")
                self.reading.acts.append(Act(kind, target, self.command, detail))

    def host(self, kind: str, text: str, detail: str = "") -> None:
        """Note an act on a host, or on the file of a `file:` URL."""
        if text[:5].lower() == "file:":
            self.act("read", Word(re.sub(r"^file:/+(?:localhost/)?", "/", text, flags=re.IGNORECASE)))
        else:
            self.reading.acts.append(Act(kind, host_of(text), self.command, detail))

    def bare(self, kind: str, detail: str = "") -> None:
        """Note an act of a pipe or a program."""
        self.reading.acts.append(Act(kind, NOWHERE, self.command, detail))

    def is_one_file(self, word: Word) -> bool:
        """Whether a word looks like one file, and is no directory."""
        path = os.path.join(self.command.cwds[0], word.text)
        return _ONE_FILE.fullmatch(word.text) is not None and word.known and not os.path.isdir(path)

    def sends(self, word: Word) -> None:
        """Note that a file leaves, or the standard input."""
        feed = self.command.feed
        if word.text not in {"-", "/dev/stdin"} and not word.text.startswith("/dev/fd/"):
            self.act("sent", word)
        elif feed is None or feed.commands or feed.text is None:
            self.bare("send-input")
        self.bare("sends")

    def redirects(self) -> None:
        """The files that redirections read, write or append to, and the hosts behind `/dev/tcp`."""
        command = self.command
        for operator, _, word in command.redirects:
            text = word.text
            if operator in {"<<<", ">&-", "<&-", "<&"} or (operator == ">&" and re.fullmatch(r"\d*-?", text)):
                continue
            if found := _NET_PATH.fullmatch(text[:2] + text[2:].replace("//", "/")):
                self.host("connect", found[1], "socket")
                self.bare("socket")
                continue
            if operator == "<":
                self.act("read", word)
                continue
            kind = "append" if ">>" in operator else "write"
            if self.saves():
                self.files.fetched.update(self.paths(word))
            if command.name in _PRINTERS:
                printed = self.reader.output([replace(command, redirects=())], self.scope)
                self.put(kind, word, "redirect", None if printed is None else f"{printed}\n")
            else:
                self.act(kind, word, "redirect")

    def put(self, kind: str, word: Word, detail: str, text: str | None, *, known: bool = True) -> None:
        """It writes a text into a file, or a part of it unless all is `known`; None if the text is not known."""
        self.act(kind, word, detail)
        if text is not None:
            self.bare("content", text)
            self.act("memory", word, text)
        self.keep(word, text if known else None, adds=kind == "append")

    def saves(self) -> bool:
        """Whether what it writes comes from a download."""
        feed = self.command.feed
        return not _SAVERS.isdisjoint([self.command.name, *(one.name for one in (feed.commands if feed else ()))])

    def paths(self, word: Word) -> list[str]:
        """The paths of a file that may be run later; none if that is not known, or it is a device."""
        if unknown(word.text) or word.text == "-" or word.text.startswith("/dev/"):
            return []
        return [self.places.real(word.text, cwd) for cwd in self.command.cwds]

    def keep(self, word: Word, text: str | None, *, adds: bool = False) -> None:
        """A file has this text from now on, or it is added to what the file has; None if it is not known."""
        for path in self.paths(word):
            before = (self.files.text_of(path) or "") if adds else ""
            is_known = text is not None and not unknown(before + text)
            self.files.texts[path] = f"{before}{text}" if is_known else UNKNOWN

    def inner(self, **changes: Any) -> Scope:
        """The scope of a command that this one starts."""
        via = (*self.scope.via, self.command.name)
        return replace(self.scope, **{"via": via, "feed": self.command.feed, "functions": {}, "aliases": {}, **changes})

    def run(self, words: Sequence[Word], scope: Scope | None = None, assigned: Sequence[tuple[str, str]] = ()) -> None:
        """It runs another command."""
        scope = scope or self.inner()
        if len(scope.via) > 9:
            self.reading.doubt("Too many programs start each other.", self.command)
        elif words:
            self.command.wraps = True
            self.reader.execute(list(words), scope, (), tuple(assigned))

    def shell(self, word: Word, **changes: Any) -> None:
        """It runs a shell text."""
        if is_fetched(word):
            self.bare("fetch-run", word.shown)
        known = word.text.translate(_MARKS)
        if known.replace("${PICOHOOK_UNKNOWN}", "").strip(" \t\n'\""):
            inner = self.inner(**changes).copy()
            inner.variables.pop("PICOHOOK_UNKNOWN", None)
            self.reader.read(known, inner)
        safe = word.inside and all(one.name in _SAFE_EVAL for one in word.inside)
        if unknown(word.text.replace(PLAIN, "")) and not safe:
            self.reading.doubt(f"`{self.command.name}` runs a text that is not known.", self.command)


def is_fetched(word: Word) -> bool:
    """Whether a part of a word is what another machine sends."""
    return any(one.name in FETCHERS for one in word.inside)
