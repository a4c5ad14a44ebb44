"""Rules: packs of them are TOML files, a person's own have the same form, and a reading is held against all.

A rule's `run` has patterns of commands: `git push -f|--force !-n|--dry-run`. The program and its subcommand come first. Options
may stand anywhere, in a bundle or shortened. `a|b` is one of both, and `!` none of these. Other words are globs, each
of which one operand matches. A rule's `act`, `place` and `path` are about what a command does. `when` names a function of
`predicates`.
"""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator

from ...config.checks import validate
from ...config.problems import Problems
from ...errors import PicohookError
from . import predicates
from .call import Call
from .names import ALL
from .words import Word, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .reading import Act, Command, Reading

PACKS = Path(__file__).with_name("packs")
Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
_known_options: set[str] = set()
"""Long options of all patterns. They are no abbreviations of others."""


class GuardError(PicohookError):
    """A pack, a rule or an allowed call that cannot be used."""


class Pattern:
    """A pattern of commands."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError` if the text has no program."""
        first, *words = shlex.split(text) or ["!"]
        if first.startswith(("-", "!")):
            raise ValueError("a pattern begins with the name of a program")
        self.names = frozenset(first.split("|"))
        self.subs: list[list[str]] = []
        self.refused: list[str] = []
        self.needed: list[list[str]] = []
        self.operands: list[list[str]] = []
        for word in words:
            choices = word.removeprefix("!").split("|")
            if word.startswith("!"):
                self.refused += choices
            elif word.startswith("-"):
                self.needed.append(choices)
            elif self.refused or self.needed or self.operands or re.search(r"[*?\[:/+]", word):
                self.operands.append(choices)
            else:
                self.subs.append(choices)
        options = [*self.refused, *(option for group in self.needed for option in group)]
        _known_options.update(one.partition("=")[0] for one in options if one.startswith("--"))

    def matches(self, command: Command) -> bool:
        """Whether a command of one of the names is meant."""
        count, operands, options = len(self.subs), command.operands, command.options
        if len(operands) < count or any(operands[at].text not in self.subs[at] for at in range(count)):
            return False
        texts = [word.text for word in operands]
        return (
            not any(_has(options, texts, one) for one in self.refused)
            and all(any(_has(options, texts, one) for one in group) for group in self.needed)
            and all(any(fnmatchcase(text, glob) for glob in globs for text in texts[count:]) for globs in self.operands)
        )


def _has(options: Mapping[str, str], operands: Sequence[str], wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    if not name.startswith("-"):
        return any(fnmatchcase(text, wanted) for text in operands)
    if name[1:2] != "-" and len(name) > 2 and name not in options:
        return all(f"-{letter}" in options for letter in name[1:])
    for given, has in options.items():
        short = given.startswith("--") and len(given) > 3 and given not in _known_options and name.startswith(given)
        if (short or given in {name, wanted}) and (not equals or given == wanted or fnmatchcase(has, value)):
            return True
    return False


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _regex(globs: Any) -> Any:
    made = []
    for glob in _several(globs):
        body = re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        made.append(body if glob.startswith(("/", "~")) else f"(?:.*/)?{body}")
    return "|".join(made)


def _predicate(name: Any) -> Any:
    if name not in predicates.BY_NAME:
        raise ValueError(f"names a predicate that does not exist: {name!r}")
    return predicates.BY_NAME[name]


def _call(example: Any) -> Any:
    return {"tool": "Bash", "arguments": {"command": example}} if isinstance(example, str) else example


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Examples = tuple[Annotated[Call, BeforeValidator(_call)], ...]
Regex = re.Pattern[str] | None
Globs = Annotated[Regex, BeforeValidator(_regex)]


class Rule(BaseModel):
    """One rule of a pack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    pack: str
    severity: Severity = "high"
    decision: Literal["deny", "ask"] = "ask"
    why: str
    instead: str = ""
    owasp: str = ""
    run: Annotated[tuple[Annotated[Any, PlainValidator(Pattern)], ...], BeforeValidator(_several)] = ()
    act: Names = ()
    place: Names = ()
    path: Globs = None
    samples: tuple[str, ...] = ()
    """Paths that it is about, for globs that may match them."""
    unless_path: Globs = None
    detail: Regex = None
    text: Regex = None
    """What a word of the command has to contain."""
    inside: Regex = None
    """What a command whose output is a word of it has to contain."""
    via: Names = ()
    when: Annotated[Any, PlainValidator(_predicate)] = None
    harmful: Examples = ()
    harmless: Examples = ()

    @property
    def example(self) -> str:
        """A harmful call, in one line; empty if it has none."""
        return self.harmful[0].shown if self.harmful else ""

    def is_about(self, act: Act, home: str) -> bool:
        """Whether it is about this act. `home` is the user's home directory."""
        target = act.target
        if self.place and target.place not in self.place:
            return False
        if self.path is not None:
            shown = target.path.removeprefix(home)
            shown = f"~{shown}" if shown != target.path and shown[:1] in {"", "/"} else target.path
            if self.unless_path is not None and self.unless_path.fullmatch(shown):
                return False
            may_be = target.glob and target.place != "generated" and any(_may_be(shown, one) for one in self.samples)
            if self.path.fullmatch(shown) is None and not may_be:
                return False
        return self.detail is None or self.detail.search(act.detail) is not None

    def holds(self, command: Command | None, act: Act | None, case: predicates.Case) -> bool:
        """Whether its other conditions hold for a command or an act that it is about."""
        words = command.words if command is not None else []
        if self.text is not None and not any(self.text.search(word.text) for word in words):
            return False
        if self.inside is not None and not any(self.inside.search(one.line) for word in words for one in word.inside):
            return False
        if self.via and (command is None or not set(self.via) & set(command.via)):
            return False
        case.command, case.act = command, act
        return self.when is None or self.when(case)


def _may_be(glob: str, path: str) -> bool:
    parts, names = glob.split("/"), path.split("/")
    if len(names) == 1:
        parts = parts[-1:]
        if len(parts[0].strip("*?[]")) < 2:
            return False  # it may be any file
    return len(parts) == len(names) and all(
        fnmatchcase(name, part) and (not name.startswith(".") or part.startswith((".", "[")))
        for part, name in zip(parts, names, strict=True)
    )


class Pack(NamedTuple):
    """The rules of one file."""

    title: str
    rules: tuple[Rule, ...]


@functools.cache
def pack(name: str) -> Pack:
    """Returns a pack. Raises `GuardError` if it cannot be loaded."""
    if name not in ALL:
        raise GuardError(f"there is no pack of guards named {name!r}: there are {', '.join(ALL)}")
    try:
        document = tomllib.loads((PACKS / f"{name}.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GuardError(f"the pack {name} cannot be read: {error}") from None
    paths = document.get("paths", {})
    for given in document["rule"]:
        names = given.get("path", ())
        given["samples"] = [one for path in names for one in paths.get(path, {}).get("samples", ())]
        for key in {"path", "unless_path"} & given.keys():
            given[key] = [one for path in given[key] for one in paths.get(path, {}).get("globs", [path])]
    return Pack(document["title"], tuple(rule(given, name, at) for at, given in enumerate(document["rule"], 1)))


def rule(given: Mapping[str, Any], pack_name: str, number: int) -> Rule:
    """Returns the rule of a table. Raises `GuardError` if it has a mistake."""
    place = f"the rule {given['id']}" if "id" in given else f"rule {number} of {pack_name}"
    problems = Problems(f"{place} has a mistake")
    made = validate(Rule, {**given, "pack": pack_name}, problems)
    if made is not None and not {"run", "act", "text"} & given.keys():
        problems.add((), "it has no `run`, no `act` and no `text`")
    if made is None or problems.found:
        raise GuardError("; ".join(map(str, problems.found)))
    return made


class Finding(NamedTuple):
    """A rule that is about a part of a call."""

    rule: Rule
    command: Command | None = None
    act: Act | None = None


class Rules:
    """The rules of several packs."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._texts = [one for one in rules if not one.run and not one.act]
        patterns = [(rule, pattern) for rule in rules for pattern in rule.run]
        self._globs = [pair for pair in patterns if any("*" in name for name in pair[1].names)]
        self._plain: dict[str, list[tuple[Rule, Pattern]]] = {}
        for pair in patterns:
            for name in pair[1].names:
                self._plain.setdefault(name, []).append(pair)
        self._named = functools.lru_cache(1000)(self._about_name)
        self._acting = functools.cache(lambda kind: [one for one in rules if kind in one.act])

    def _about_name(self, name: str) -> list[tuple[Rule, Pattern]]:
        globs = [pair for pair in self._globs if any(fnmatchcase(name, one) for one in pair[1].names)]
        return self._plain.get(name, []) + [pair for pair in globs if name not in pair[1].names]

    def _about(self, command: Command) -> list[Rule]:
        """The rules of which a pattern matches the command."""
        first = command.operands[0].text if command.operands else ""
        likely = (pair for pair in self._named(command.name) if not pair[1].subs or first in pair[1].subs[0])
        return [rule for rule, pattern in likely if pattern.matches(command)]

    def findings(self, reading: Reading, case: predicates.Case) -> Iterator[Finding]:
        """Yields the rules that are about a part of the reading."""
        about = {id(command): self._about(command) for command in reading.commands}
        for command in reading.commands:
            if "--help" in command.options and not command.wraps and command.name not in predicates.CONTAINERS:
                continue
            for rule in (*about[id(command)], *self._texts):
                if not rule.act and rule.holds(command, None, case):
                    yield Finding(rule, command)
        for act in reading.acts:
            for rule in self._acting(act.kind):
                if rule.run and not any(one is rule for one in about.get(id(act.command), ())):
                    continue
                if rule.is_about(act, case.places.home) and rule.holds(act.command, act, case):
                    yield Finding(rule, act.command, act)


def is_allowed(command: Command, allowed: Command) -> bool:
    """Whether a command is the allowed one, whose words may be globs."""
    if command.name != allowed.name or command.via != allowed.via or (command.wraps and not allowed.wraps):
        return False
    options, allowed_options = command.options, dict(allowed.options)
    any_option = allowed_options.pop("-*", None) is not None
    if not options.keys() >= allowed_options.keys() - {"--", "-"}:
        return False
    for name, value in options.items():
        if name not in allowed_options and not any_option:
            return False
        if value and name in allowed_options and not fnmatchcase(value, allowed_options[name] or "*"):
            return False
    return command.wraps or _are_allowed(command.operands, [word.text for word in allowed.operands])


def _are_allowed(operands: Sequence[Word], globs: list[str]) -> bool:
    texts = [word.text for word in operands]
    if any(unknown(text) or (".." in text.split("/") and text not in globs) for text in texts):
        return False  # `build*` is not `build/../..`
    if globs[-1:] == ["*"]:
        globs.pop()
        texts = texts[: len(globs)]
    return len(texts) == len(globs) and all(map(fnmatchcase, texts, globs))
