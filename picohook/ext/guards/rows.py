"""The table of programs, `programs.toml`: how their words are read, and what they do. Its head says what a row may have."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from .names import data, listed
from .reading import Command
from .words import Word

RUNS = listed("runs")
"""The kinds of steps that start something. `--help` does not prevent them."""
_WORDS = listed("words")
_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|node|php|lua|pip|gcc|g\+\+|clang|bash|pwsh|gawk)[-.]?\d[\d._a-z]*|(ld-linux|mkfs|vim)[-\d._a-z]*"
)
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:|(?:rsync|scp|sftp)://")
Facts: TypeAlias = "Mapping[str, Callable[[Command], bool]]"
FACTS: Facts = {
    "operands": lambda command: bool(command.operands),
    "several": lambda command: len(command.operands) > 1,
    "fed": lambda command: command.feed is not None,
    "piped": lambda command: command.feed is not None and bool(command.feed.commands),
    "dashes": lambda command: any(word.text == "--" for word in command.words),
    "remote": lambda command: bool(command.operands) and _REMOTE.match(command.operands[-1].text) is not None,
    "between": lambda command: any(_REMOTE.match(word.text) for word in command.operands[:-1]),
}
_STEP = frozenset(("if", "sub", "match", "tree", "note", "in", "else", "language", "from"))


def names_in(text: str) -> frozenset[str]:
    """The names with `|` between them."""
    return frozenset(filter(None, text.split("|")))


class Choice:
    """Options, globs of operands, and facts, of which a command has one; after `!`, none.

    An option may be shortened, and have a glob of its value: `-X=DELETE`.
    """

    def __init__(self, text: str, facts: Facts) -> None:
        self.wanted, words = not text.startswith("!"), names_in(text.removeprefix("!"))
        self.options = frozenset(word for word in words if word.startswith("-"))
        self._values = [(name, value or "*") for name, _, value in (word.partition("=") for word in self.options)]
        self._facts = [facts[word] for word in words if word in facts]
        self.globs = words - self.options - facts.keys()

    def is_in(self, command: Command, operands: Sequence[Word] = ()) -> bool:
        """Whether a command has one of them."""
        given = command.options
        return (
            not self.options.isdisjoint(given)
            or any(
                _means(one, name, command.whole) and fnmatchcase(given[one], value)
                for name, value in self._values
                for one in given
            )
            or any(fact(command) for fact in self._facts)
            or any(fnmatchcase(word.text, glob) for glob in self.globs for word in operands)
        )


def _means(given: str, option: str, whole: frozenset[str]) -> bool:
    """Whether a given option is this one, perhaps cut short."""
    is_cut = len(given) > 3 and given[:2] == "--" and given not in whole
    return given == option or (is_cut and option.startswith(given))


class Pattern:
    """What the words of a command have to be: its subcommand, and further choices in any order."""

    def __init__(self, subs: Sequence[str], choices: Sequence[str], facts: Facts) -> None:
        self.subs = [(names_in(text.removeprefix("!")), not text.startswith("!")) for text in subs]
        self.needs = [Choice(text, facts) for text in choices]

    def holds(self, command: Command) -> bool:
        """Whether a command has them."""
        operands, count = command.operands, len(self.subs)
        for at, (names, wanted) in enumerate(self.subs):
            if (at < len(operands) and operands[at].text in names) is not wanted:
                return False
        return all(choice.is_in(command, operands[count:]) is choice.wanted for choice in self.needs)


class Step(Pattern):
    """One thing that a program does, in a command that has what `sub` and `if` say."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """The act is a key of the table, and its value is the words, or the name of the act if `from` has the words."""
        super().__init__(given.get("sub", "").split(), given.get("if", "").split(), FACTS)
        (self.kind,) = given.keys() - _STEP
        named = self.kind in {"act", "doubt", "odd"}
        self.what = given.get("from", "") if named else given[self.kind]
        self.note = given[self.kind] if named else given.get("note", "")
        self.match = re.compile(given["match"], re.MULTILINE) if "match" in given else None
        self.tree, self.within = Choice(given.get("tree", ""), FACTS), names_in(given.get("in", ""))
        self.default, self.language = given.get("else", ""), given.get("language", "")
        self.choices = [one for one in self.what.split("|") if one in _WORDS]
        """The choices of words that are no options."""
        self.options = names_in(self.what) - _WORDS
        """The options whose values it is about."""
        self.method = f"do_{self.kind.replace('-', '_')}"
        self.skips = sum(wanted for _, wanted in self.subs)
        """How many operands are the subcommand."""


@dataclass(frozen=True)
class Row:
    """How a program's words are read, and what it does. See `programs.toml`."""

    name: str = ""
    values: str = ""
    long: Sequence[str] = ()
    attached: str = ""
    flags: str = ""
    bare: Sequence[str] = ()
    pairs: Sequence[str] = ()
    single: bool = False
    stop: int = 0
    ends: str = ""
    bundle: bool = False
    plain: str = ""
    last: str = ""
    target: str = ""
    files: bool = True
    does: Sequence[Mapping[str, str]] = ()
    nested: bool = False
    """Whether there are rows of its subcommands."""

    @functools.cached_property
    def steps(self) -> list[Step]:
        """What it does. Raises `ValueError` if one is no step."""
        return [Step(given) for given in self.does]

    @functools.cached_property
    def guessed(self) -> bool:
        """Whether no act of it is known, and each operand may be a file."""
        return self.files and all(step.kind in RUNS for step in self.steps)

    def valued(self, name: str) -> str:
        """The whole name of a long option that takes a value; empty if this is none."""
        if name in self.long or name in self.bare:
            return name if name in self.long else ""
        is_cut = len(name) > 2 and not self.single
        found = [one for one in (*self.long, *self.bare) if one.startswith(name)] if is_cut else []
        return found[0] if len(found) == 1 and found[0] in self.long else ""

    @functools.cached_property
    def whole(self) -> frozenset[str]:
        """The long options that it is known to have. None of them is another one, cut short."""
        return frozenset(f"--{one}" for one in (*self.long, *self.bare))

    def strange(self, options: Iterable[str]) -> str:
        """The first of these options that a program with all its options in the table does not have; empty if there is none."""
        letters, names = self.values + self.flags + self.attached, ("--help", "--version", *self.whole)
        others = (
            [one for one in options if one[1] not in letters and not one.lstrip("-").isdigit()] if self.flags else []
        )
        return next((one for one in others if not any(name.startswith(one) for name in names)), "")


@functools.cache
def table() -> Mapping[str, Row]:
    """The rows, by the programs' names, and by names with subcommands. Raises `TypeError` if one has an unknown key."""
    document: dict[str, dict[str, Any]] = data("programs")
    parents = {name.partition(" ")[0] for name in document if " " in name}
    made: dict[str, Row] = {}
    for given, keys in document.items():
        name = keys.get("same_as", given)
        made[given] = Row(name="" if name == "*" else name, nested=name in parents, **document[name])
    return made


def row_of(name: str) -> Row:
    """The row of a program; the row without a name if the table does not have it."""
    rows = table()
    found = None if name in rows else _VERSIONED.fullmatch(name)
    return rows.get((found[1] or found[2]) if found else name, rows["*"])


class Split(NamedTuple):
    """The words of a command, told apart."""

    options: dict[str, str]
    operands: list[Word]
    given: list[tuple[str, Word]]
    """The options with values, each as often as it is there."""


def split(words: Sequence[Word], row: Row) -> Split:
    """Returns the options and the operands of a command's words, of which the first is its name."""
    options: dict[str, str] = {}
    operands: list[Word] = []
    given: list[tuple[str, Word]] = []
    rest = iter(words[1:])

    def option(name: str, value: Word | None = None) -> None:
        options.pop(name, None)  # the last one wins: it stands last
        options[name] = value.text if value else ""
        if value:
            given.append((name, value))

    for at, word in enumerate(rest):
        text = word.text
        bundled = at == 0 and row.bundle and text.isalpha()
        if not bundled and (len(text) < 2 or text[0] != "-" or (row.plain and re.fullmatch(row.plain, text))):
            operands.append(word)
            if len(operands) == row.stop:
                operands.extend(rest)
        elif text == "--":
            options.setdefault("--", "")
            operands.extend(rest)
        elif not bundled and (text[1] == "-" or row.single or text[1:] in row.long):
            name, equals, value = text.partition("=")
            bare = name.lstrip("-")
            full = row.valued(bare)
            if full in row.pairs:
                next(rest, None)
            attached = replace(word, text=value) if equals else None
            option(name.replace(bare, full or bare), attached or (next(rest, None) if full else None))
        else:
            letters = text if bundled else text[1:]
            for place, letter in enumerate(letters, 1):
                if letter not in row.values + row.attached:
                    option(f"-{letter}")
                    continue
                attached = replace(word, text=letters[place:]) if letters[place:] and not bundled else None
                option(f"-{letter}", attached or (next(rest, None) if letter in row.values else None))
                if letter in row.ends:
                    operands.extend(rest)
                if attached:
                    break
    last = names_in(row.last)
    for name in [name for name in options if name in last][:-1]:
        del options[name]
    return Split(options, operands, given)
