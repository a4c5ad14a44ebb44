"""What a command does with files and hosts, as acts, and the commands and texts that it runs."""

from __future__ import annotations

import os.path
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .listing import listed
from .names import listed as named
from .places import Target, host_of
from .reading import Act
from .syntax import TooMuchError
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, Word, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .places import Places
    from .reader import Reader, Scope
    from .reading import Command, Redirect

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


class CallFiles:
    """The files of one call."""

    def __init__(self, places: Places, written: Callable[[str], str | None] | None = None) -> None:
        """`written` returns the text of a file that this session wrote; None if it wrote no such file."""
        self.places = places
        self.fetched: set[str] = set()
        """Files that it downloads."""
        self.texts: dict[str, str] = {}
        """Files that it writes, with their texts as far as they are known."""
        self.running: list[str] = []
        """Files that run now."""
        self._written = written or (lambda _: None)

    def text_of(self, path: str) -> str | None:
        """The text of a file that the call or its session wrote; None if they wrote no such file."""
        return self.texts[path] if path in self.texts else self._written(path)


class Effects:
    """Notes what one command does, and reads what it runs."""

    def __init__(self, files: CallFiles, reader: Reader, command: Command, scope: Scope) -> None:
        self.files, self.reader, self.command, self.scope = files, reader, command, scope
        self.places, self.reading = files.places, reader.reading
        self._elsewhere = not _REMOTE.isdisjoint(command.via)

    def act(self, kind: str, word: Word | str, detail: str = "") -> None:
        """Note an act on a file, wherever the command may run."""
        word = Word(word) if isinstance(word, str) else word
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
        if text.startswith("file:"):
            self.act("read", text)
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
        for redirect in self.command.redirects:
            operator, text = redirect.operator, redirect.target.text
            if operator in {"<<<", ">&-", "<&-"}:
                continue
            if found := _NET_PATH.fullmatch(text[:2] + text[2:].replace("//", "/")):
                self.host("connect", found[1], "socket")
                self.bare("socket")
            elif operator == "<":
                self.act("read", redirect.target)
            elif operator != "<&" and not (operator == ">&" and (text.rstrip("-").isdigit() or text == "-")):
                self._redirected(redirect)

    def _redirected(self, redirect: Redirect) -> None:
        """A redirection writes a file, which the line may run later."""
        command, word = self.command, redirect.target
        self.act("append" if ">>" in redirect.operator else "write", word, "redirect")
        if self.saves():
            self.files.fetched.update(self.paths(word))
        if command.name not in _PRINTERS:
            return
        text = self.reader.output([replace(command, redirects=())], self.scope)
        if text is not None:
            text = f"{text}\n"
            self.bare("content", text)
            self.act("memory", word, text)
        self.keep(word, text)

    def saves(self) -> bool:
        """Whether what it writes comes from a download."""
        feed = self.command.feed
        return not _SAVERS.isdisjoint([self.command.name, *(one.name for one in (feed.commands if feed else ()))])

    def paths(self, word: Word) -> list[str]:
        """The paths of a file that may be run later; none if that is not known, or it is a device."""
        if unknown(word.text) or word.text == "-" or word.text.startswith("/dev/"):
            return []
        return [self.places.real(word.text, cwd) for cwd in self.command.cwds]

    def keep(self, word: Word, text: str | None) -> None:
        """A file has this text from now on; None if it is not known."""
        kept = UNKNOWN if text is None or unknown(text) else text
        self.files.texts.update(dict.fromkeys(self.paths(word), kept))

    def inner(self, **changes: Any) -> Scope:
        """The scope of a command that this one starts."""
        via = (*self.scope.via, self.command.name)
        return replace(self.scope, via=via, feed=self.command.feed, functions={}, aliases={}, **changes)

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
