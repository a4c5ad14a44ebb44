"""What was read of a call: its commands, what they do, and what cannot be known."""

import re
import shlex
from dataclasses import dataclass, field
from typing import NamedTuple

from .places import Target
from .words import Word


class Redirect(NamedTuple):
    """A redirection of a command."""

    operator: str
    descriptor: str
    target: Word


@dataclass(slots=True)
class Feed:
    """What a command reads from its standard input."""

    commands: list["Command"] = field(default_factory=list)
    """The commands before it in a pipe."""
    text: str | None = None
    """The text, if it is known."""
    file: Word | None = None


@dataclass(slots=True)
class Command:
    """One command, with its words as the program gets them."""

    words: list[Word]
    name: str
    """The program's name without its directory; empty if it is not known."""
    cwds: tuple[str, ...]
    """The directories in which it may run."""
    redirects: tuple[Redirect, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    """Variables for it alone."""
    feed: Feed | None = None
    via: tuple[str, ...] = ()
    """The programs that start it, outermost first."""
    wraps: bool = False
    """Whether its words are another command, which is read as one of its own."""
    options: dict[str, str] = field(default_factory=dict)
    """Its options with their values, each short one alone."""
    operands: list[Word] = field(default_factory=list)
    whole: frozenset[str] = frozenset()
    """Long options that the program is known to have."""

    @property
    def line(self) -> str:
        """The command for people."""
        return " ".join(in_quotes(word.shown) for word in self.words)


class Act(NamedTuple):
    """One thing that a call does."""

    kind: str
    """read, write, append, delete, delete-tree, connect, send, ..."""
    target: Target
    command: Command
    detail: str = ""


class Doubt(NamedTuple):
    """Something that cannot be known and may do harm."""

    why: str
    command: Command | None = None


@dataclass(slots=True)
class Reading:
    """What a call does."""

    commands: list[Command] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    """The files that it writes, by their paths, with their texts as far as they are known."""

    def doubt(self, why: str, command: Command | None = None) -> None:
        """Note something that cannot be known."""
        if len(self.doubts) < 20:
            self.doubts.append(Doubt(why, command))


def in_quotes(text: str) -> str:
    """A word for people, in quotes if it needs them."""
    return text if re.fullmatch(r"[^ \t\n'\"\\;&|<>()$`]+", text) else shlex.quote(text)
