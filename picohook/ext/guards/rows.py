"""The table of programs, `programs.toml`: how their words are read, and what they do. Its head says what a row may have."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

from .names import data, listed
from .words import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .reading import Command

RUNS = listed("runs")
"""The kinds of steps that start something. `--help` does not prevent them."""
_KINDS = RUNS | listed("acts")
_WORDS = listed("words")
_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|node|php|lua|pip|gcc|g\+\+|clang|bash|pwsh|gawk)[-.]?\d[\d._a-z]*|(ld-linux|mkfs|vim)[-\d._a-z]*"
)
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:|(?:rsync|scp|sftp)://")
FACTS: dict[str, Callable[[Command], bool]] = {
    "operands": lambda command: bool(command.operands),
    "several": lambda command: len(command.operands) > 1,
    "fed": lambda command: command.feed is not None,
    "piped": lambda command: command.feed is not None and bool(command.feed.commands),
    "dashes": lambda command: any(word.text == "--" for word in command.words),
    "remote": lambda command: bool(command.operands) and _REMOTE.match(command.operands[-1].text) is not None,
    "between": lambda command: any(_REMOTE.match(word.text) for word in command.operands[:-1]),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


def _conditions(text: str) -> list[tuple[frozenset[str], bool]]:
    return [(_names(one.removeprefix("!")), not one.startswith("!")) for one in text.split()]


Regex = Annotated[re.Pattern[str], BeforeValidator(lambda text: re.compile(text, re.MULTILINE))]
Names = Annotated[frozenset[str], BeforeValidator(_names)]
Conditions = Annotated[tuple[tuple[frozenset[str], bool], ...], BeforeValidator(_conditions)]


class Step(BaseModel):
    """One thing that a program does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    what: str = ""
    when: Conditions = Field((), alias="if")
    sub: Conditions = ()
    match: Regex | None = None
    tree: Names = frozenset()
    note: str = ""
    within: Names = Field(frozenset(), alias="in")
    default: str = Field("", alias="else")
    language: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_a_table(cls, given: dict[str, Any]) -> dict[str, Any]:
        """The act is a key of the table, and its value is the words, or the name of the act if `from` has the words."""
        kinds = given.keys() & _KINDS
        if len(kinds) != 1:
            raise ValueError(f"a step has one of {', '.join(sorted(_KINDS))}")
        kind = kinds.pop()
        rest = {key: value for key, value in given.items() if key not in {kind, "from"}}
        if kind in {"act", "doubt", "odd"}:
            return {**rest, "kind": kind, "note": given[kind], "what": given.get("from", "")}
        return {**rest, "kind": kind, "what": given[kind]}

    @model_validator(mode="after")
    def _names_what_there_is(self) -> Step:
        odd = {one for one in self.what.split("|") if one and not one.startswith("-")} - _WORDS
        odd |= {one for names, _ in self.when for one in names if not one.startswith("-")} - FACTS.keys()
        if odd:
            raise ValueError(f"{', '.join(sorted(odd))}: there is no such choice of words, and no such fact")
        return self

    @functools.cached_property
    def method(self) -> str:
        """The name of the method that does it."""
        return f"do_{self.kind.replace('-', '_')}"

    @functools.cached_property
    def choices(self) -> list[str]:
        """The choices of words that are no options."""
        return [one for one in self.what.split("|") if one in _WORDS]

    @functools.cached_property
    def options(self) -> frozenset[str]:
        """The options whose values it is about."""
        return _names(self.what) - _WORDS - {""}

    @functools.cached_property
    def is_about_values(self) -> bool:
        """Whether it does nothing in a command whose options have no values."""
        return bool(self.options) and not self.choices and not self.default and self.kind not in {"each", "recipes"}

    @functools.cached_property
    def skips(self) -> int:
        """How many operands are the subcommand."""
        return sum(wanted for _, wanted in self.sub)

    def holds(self, command: Command) -> bool:
        """Whether the program does it, in this command."""
        operands = command.operands
        for at, (names, wanted) in enumerate(self.sub):
            if (at < len(operands) and operands[at].text in names) is not wanted:
                return False
        return not self.when or all(has(command, names) is wanted for names, wanted in self.when)


def has(command: Command, names: frozenset[str]) -> bool:
    """Whether a command has one of these options, perhaps shortened, or one of these facts is true of it."""
    options = command.options
    if not names.isdisjoint(options):
        return True
    for given in options:
        if given[:2] == "--" and given != "--" and any(one.startswith(given) for one in names):
            return True
    return not names.isdisjoint(FACTS) and any(FACTS[name](command) for name in names & FACTS.keys())


class Row(BaseModel):
    """How a program's words are read, and what it does. See `programs.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    values: str = ""
    long: tuple[str, ...] = ()
    single: bool = False
    stop: int = 0
    ends: str = ""
    bundle: bool = False
    plain: Regex | None = None
    last: Names = frozenset()
    target: Names = frozenset()
    files: bool = True
    does: tuple[Step, ...] = ()
    nested: bool = False
    """Whether there are rows of its subcommands."""
    guessed: bool = True
    """Whether no act of it is known, and each operand may be a file."""

    def valued(self, name: str) -> str:
        """The whole name of a long option that takes a value; empty if this is none."""
        if name in self.long:
            return name
        found = [one for one in self.long if one.startswith(name)] if len(name) > 2 and not self.single else []
        return found[0] if len(found) == 1 else ""


@functools.cache
def table() -> Mapping[str, Row]:
    """The rows, by the programs' names, and by names with subcommands. Raises `ValueError` if one has a mistake."""
    document: dict[str, dict[str, Any]] = data("programs")
    parents = {name.partition(" ")[0] for name in document if " " in name}
    made = {
        name: {**document[keys["same_as"]], "name": keys["same_as"]} if "same_as" in keys else {"name": name, **keys}
        for name, keys in document.items()
    }
    for keys in made.values():
        acts = any(not RUNS & step.keys() for step in keys.get("does", ()))
        keys |= {"nested": keys["name"] in parents, "guessed": not acts and keys.get("files", True)}
    made["*"]["name"] = ""
    return TypeAdapter(dict[str, Row]).validate_python(made)


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
        if not bundled and (len(text) < 2 or text[0] != "-" or (row.plain and row.plain.fullmatch(text))):
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
            attached = _part(word, value) if equals else None
            option(name.replace(bare, full or bare), attached or (next(rest, None) if full else None))
        else:
            letters = text if bundled else text[1:]
            for place, letter in enumerate(letters, 1):
                if letter not in row.values:
                    option(f"-{letter}")
                    continue
                attached = _part(word, letters[place:]) if letters[place:] and not bundled else None
                option(f"-{letter}", attached or next(rest, None))
                if letter in row.ends:
                    operands.extend(rest)
                if attached:
                    break
    for name in [name for name in options if name in row.last][:-1]:
        del options[name]
    return Split(options, operands, given)


def _part(word: Word, text: str) -> Word:
    return Word(text, word.glob, word.inside, word.variables)
