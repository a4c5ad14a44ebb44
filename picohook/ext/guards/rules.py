"""Rules: packs of them are TOML files, a person's own have the same form, and a reading is held against all.

A rule's `run` has patterns of commands: `git push -f|--force !-n|--dry-run`. The program and its subcommand come first. Options
may stand anywhere, in a bundle or shortened. `a|b` is one of both, and `!` none of these. Other words are globs, each
of which one operand matches. A rule's `act`, `place` and `path` are about what a command does. `when` names a function of
`predicates`.
"""

from __future__ import annotations

import fnmatch
import functools
import os.path
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import PicohookError
from . import predicates
from .names import listed
from .words import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .reading import Act, Command, Reading

PACKS = Path(__file__).with_name("packs")
Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
_KEYS = listed("keys")
_known_options: set[str] = set()
"""Long options of all patterns. They are no abbreviations of others."""


class GuardError(PicohookError):
    """A pack, a rule or an allowed call that cannot be used."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of commands."""

    names: frozenset[str]
    subs: tuple[frozenset[str], ...] = ()
    needed: tuple[tuple[str, ...], ...] = ()
    refused: tuple[str, ...] = ()
    operands: tuple[tuple[str, ...], ...] = ()

    def matches(self, command: Command) -> bool:
        """Whether a command of one of the names is meant."""
        operands = command.operands
        if len(operands) < len(self.subs):
            return False
        for at, sub in enumerate(self.subs):
            if operands[at].text not in sub:
                return False
        options = command.options
        if self.refused and any(_has(options, operands, one) for one in self.refused):
            return False
        if not all(any(_has(options, operands, one) for one in group) for group in self.needed):
            return False
        rest = operands[len(self.subs) :]
        return all(
            any(fnmatch.fnmatchcase(word.text, glob) for glob in globs for word in rest) for globs in self.operands
        )


def _has(options: Mapping[str, str], operands: Sequence[Any], wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    if not name.startswith("-"):
        return any(fnmatch.fnmatchcase(word.text, wanted) for word in operands)
    for given, has in options.items():
        same = given in (name, wanted)
        if not same and given.startswith("--") and len(given) > 3 and given not in _known_options:
            same = name.startswith(given)
        if same and (not equals or given == wanted or fnmatch.fnmatchcase(has, value)):
            return True
    return False


def pattern(text: str) -> Pattern:
    """Returns the pattern of a text. Raises `ValueError` if it has no program."""
    words = shlex.split(text)
    if not words or words[0].startswith(("-", "!")):
        raise ValueError("a pattern begins with the name of a program")
    subs: list[frozenset[str]] = []
    needed: list[tuple[str, ...]] = []
    refused: list[str] = []
    operands: list[tuple[str, ...]] = []
    leading = True
    for word in words[1:]:
        if word.startswith("!"):
            refused += word[1:].split("|")
        elif word.startswith("-"):
            needed.append(tuple(word.split("|")))
        elif leading and not any(one in word for one in "*?[:/+"):
            subs.append(frozenset(word.split("|")))
            continue
        else:
            operands.append(tuple(word.split("|")))
        leading = False
    for one in [*refused, *(option for group in needed for option in group)]:
        if one.startswith("--"):
            _known_options.add(one.partition("=")[0])
    return Pattern(frozenset(words[0].split("|")), tuple(subs), tuple(needed), tuple(refused), tuple(operands))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a pack."""

    id: str
    pack: str
    severity: Severity
    decision: Literal["deny", "ask"]
    why: str
    instead: str
    owasp: str = ""
    patterns: tuple[Pattern, ...] = ()
    acts: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    path: re.Pattern[str] | None = None
    samples: tuple[str, ...] = ()
    """Paths that it is about, for globs that may match them."""
    unless_path: re.Pattern[str] | None = None
    detail: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    """What the words of the command have to contain."""
    via: frozenset[str] = frozenset()
    when: Callable[[predicates.Case], bool] | None = None
    harmful: tuple[Any, ...] = ()
    harmless: tuple[Any, ...] = ()

    def stops(self, act: Act, home: str) -> bool:
        """Whether it is about this act. `home` is the user's home directory."""
        target = act.target
        if self.places and target.place not in self.places:
            return False
        if self.path is not None:
            shown = target.path
            if shown.startswith(home) and shown[len(home) : len(home) + 1] in {"", "/"}:
                shown = f"~{shown[len(home) :]}"
            if self.unless_path is not None and self.unless_path.fullmatch(shown):
                return False
            if self.path.fullmatch(shown) is None and not (
                target.glob and target.place != "generated" and any(_may_be(shown, one) for one in self.samples)
            ):
                return False
        if self.detail is not None and self.detail.search(act.detail) is None:
            return False
        return not self.via or act.command is None or not self.via.isdisjoint(act.command.via)


def _may_be(glob: str, path: str) -> bool:
    parts, names = glob.split("/"), path.split("/")
    if len(names) == 1:
        parts = parts[-1:]
        if len(parts[0].strip("*?[]")) < 2:
            return False  # it may be any file
    if len(parts) != len(names):
        return False
    return all(
        fnmatch.fnmatchcase(name, part) and (not name.startswith(".") or part.startswith((".", "[")))
        for part, name in zip(parts, names, strict=True)
    )


def _regex(globs: Sequence[str]) -> re.Pattern[str] | None:
    if not globs:
        return None
    made = []
    for glob in globs:
        body = re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        made.append(body if glob.startswith(("/", "~")) else f"(?:.*/)?{body}")
    return re.compile("|".join(made))


class Pack:
    """The rules of one file, or of a person's own table."""

    def __init__(self, name: str, title: str, rules: Sequence[Rule]) -> None:
        self.name, self.title, self.rules = name, title, tuple(rules)


@functools.cache
def _document(name: str) -> dict[str, Any]:
    try:
        with (PACKS / f"{name}.toml").open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise GuardError(f"there is no pack of guards named {name!r}: there are {', '.join(names())}") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise GuardError(f"the pack {name} cannot be read: {error}") from None


def names() -> list[str]:
    """The names of the packs that picohook has, in their order."""
    usual = ["shell", "git", "secrets", "network", "self", "packages", "cloud"]
    return [name for name in usual if (PACKS / f"{name}.toml").exists()]


@functools.cache
def pack(name: str) -> Pack:
    """Returns a pack. Raises `GuardError` if it cannot be loaded."""
    document = _document(name)
    paths = document.get("paths", {})
    rules = [rule(given, name, paths, at) for at, given in enumerate(document.get("rule", []))]
    return Pack(name, document.get("title", name), rules)


def rule(given: Mapping[str, Any], pack_name: str, paths: Mapping[str, Any] | None = None, at: int = 0) -> Rule:
    """Returns the rule of a table. Raises `GuardError` if it has a mistake."""
    place = f"rule {at + 1} of {pack_name}" if "id" not in given else f"the rule {given['id']}"
    odd = given.keys() - _KEYS
    if odd:
        raise GuardError(f"{place} has unknown keys: {', '.join(sorted(odd))}")
    try:
        decision, severity = given.get("decision", "ask"), given.get("severity", "high")
        if decision not in {"ask", "deny"} or severity not in SEVERITIES:
            raise ValueError("`decision` is ask or deny, and `severity` one of " + ", ".join(SEVERITIES))
        if not any(key in given for key in ("run", "act", "text")):
            raise ValueError("it has no `run`, no `act` and no `text`")
        globs = [one for name in _list(given.get("path")) for one in (paths or {}).get(name, {}).get("globs", [name])]
        unless = [
            one for name in _list(given.get("unless_path")) for one in (paths or {}).get(name, {}).get("globs", [name])
        ]
        samples = [one for name in _list(given.get("path")) for one in (paths or {}).get(name, {}).get("samples", [])]
        when = given.get("when")
        return Rule(
            id=str(given["id"]),
            pack=pack_name,
            severity=severity,
            decision=decision,
            why=str(given["why"]),
            instead=str(given.get("instead", "")),
            owasp=str(given.get("owasp", "")),
            patterns=tuple(pattern(one) for one in _list(given.get("run"))),
            acts=frozenset(_list(given.get("act"))),
            places=frozenset(_list(given.get("place"))),
            path=_regex(globs),
            samples=tuple(samples),
            unless_path=_regex(unless),
            detail=re.compile(given["detail"]) if "detail" in given else None,
            text=re.compile(given["text"]) if "text" in given else None,
            via=frozenset(_list(given.get("via"))),
            when=None if when is None else predicates.BY_NAME[when],
            harmful=tuple(given.get("harmful", ())),
            harmless=tuple(given.get("harmless", ())),
        )
    except KeyError as error:
        raise GuardError(f"{place} lacks {error}, or names a predicate that does not exist") from None
    except (ValueError, re.error) as error:
        raise GuardError(f"{place} has a mistake: {error}") from None


def _list(value: Any) -> list[str]:
    return (
        []
        if value is None
        else value.split()
        if isinstance(value, str) and " " in value and "/" not in value
        else [value]
        if isinstance(value, str)
        else list(value)
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is about a part of a call."""

    rule: Rule
    command: Command | None = None
    act: Act | None = None


@dataclass(slots=True)
class Index:
    """The rules of several packs, by what they are about."""

    by_name: dict[str, list[tuple[Rule, Pattern]]] = field(default_factory=dict)
    anywhere: list[tuple[Rule, Pattern]] = field(default_factory=list)
    by_act: dict[str, list[Rule]] = field(default_factory=dict)
    texts: list[Rule] = field(default_factory=list)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Index:
        """Returns the index of these rules."""
        index = cls()
        for one in rules:
            for made in one.patterns:
                for name in made.names:
                    if "*" in name:
                        index.anywhere.append((one, made))
                    else:
                        index.by_name.setdefault(name, []).append((one, made))
            for kind in one.acts:
                index.by_act.setdefault(kind, []).append(one)
            if not one.patterns and not one.acts:
                index.texts.append(one)
        return index

    def findings(self, reading: Reading, case: predicates.Case) -> list[Finding]:
        """The rules that are about a part of the reading."""
        found: list[Finding] = []
        for command in reading.commands:
            if "--help" in command.options and not command.wraps and command.name not in predicates.CONTAINERS:
                continue
            named = [
                *self.by_name.get(command.name, ()),
                *(
                    (one, made)
                    for one, made in self.anywhere
                    if any(fnmatch.fnmatchcase(command.name, n) for n in made.names)
                ),
            ]
            about = [one for one, made in named if made.matches(command)] + self.texts
            found += [Finding(one, command) for one in about if self._holds(one, command, None, case)]
        for act in reading.acts:
            about = [
                one for one in self.by_act.get(act.kind, ()) if not one.patterns and one.stops(act, case.places.home)
            ]
            found += [Finding(one, act.command, act) for one in about if self._holds(one, act.command, act, case)]
        return found

    @staticmethod
    def _holds(one: Rule, command: Command | None, act: Act | None, case: predicates.Case) -> bool:
        if one.text is not None and (command is None or not any(one.text.search(word.text) for word in command.words)):
            return False
        if one.via and (command is None or one.via.isdisjoint(command.via)):
            return False
        if one.when is None:
            return True
        case.command, case.act = command, act
        return one.when(case)


class Allowed:
    """Calls that a person allows: each is read as a call, and its words may be globs."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = [command for command in commands if command.name]

    def permits(self, command: Command | None) -> bool:
        """Whether one of them is this command."""
        return command is not None and any(_is_allowed(command, one) for one in self.commands)


def _is_allowed(command: Command, allowed: Command) -> bool:
    if command.name != allowed.name or command.via != allowed.via:
        return False
    if command.wraps and not allowed.wraps:
        return False
    options, allowed_options = _unbundled(command.options), _unbundled(allowed.options)
    any_option = "-*" in allowed_options
    for name, value in options.items():
        given = allowed_options.get(name)
        if given is None and any_option:
            continue
        if given is None or (value and not fnmatch.fnmatchcase(value, given or "*")):
            return False
    if any(name not in options for name in allowed_options if name not in {"-*", "--", "-"}):
        return False
    if command.wraps:
        return True  # what it runs is judged by itself
    operands, globs = [word.text for word in command.operands], [word.text for word in allowed.operands]
    if any(unknown(text) or (".." in text.split("/") and text not in globs) for text in operands):
        return False  # `build*` is not `build/../..`
    if globs and globs[-1] == "*":
        globs.pop()
        operands = operands[: len(globs)] if len(operands) >= len(globs) else operands
    if len(operands) != len(globs):
        return False
    return all(fnmatch.fnmatchcase(text, glob) for text, glob in zip(operands, globs, strict=True))


def _unbundled(options: Mapping[str, str]) -> dict[str, str]:
    """The options without bundles, whose letters are there one by one."""
    return {
        name: value
        for name, value in options.items()
        if name[:2] == "--" or len(name) < 3 or not all(f"-{letter}" in options for letter in name[1:])
    }


def home() -> str:
    """The user's home directory, with links followed."""
    return os.path.realpath(os.path.expanduser("~"))
