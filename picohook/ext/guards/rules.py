"""Rules: packs of them are TOML files, a person's own have the same form, and a reading is held against all.

A rule's `run` has patterns of commands: `git push -f|--force !-n|--dry-run`. The program and its subcommand come first.
Options may stand anywhere, in a bundle or shortened. `a|b` is one of both, and `!` none of these. Other words are globs,
each of which one operand matches, or facts, such as `several` operands. A rule's `act`, `place` and `path` are about what a
command does. `when` names a function of `predicates`.
"""

import functools
import itertools
import re
import shlex
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator

from ...config.checks import validate
from ...config.problems import Problems
from ...errors import PicohookError
from . import predicates
from .call import Call
from .names import ALL
from .predicates import Case
from .reading import Act, Command
from .rows import FACTS, Pattern
from .words import unknown

PACKS = Path(__file__).with_name("packs")
Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")


class GuardError(PicohookError):
    """A pack, a rule or an allowed call that cannot be used."""


class Run(Pattern):
    """A pattern of commands, with the names of their programs."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError` if the text has no program."""
        first, *words = shlex.split(text) or ["!"]
        if first.startswith(("-", "!")):
            raise ValueError("a pattern begins with the name of a program")
        self.names = first.split("|")
        subs = [*itertools.takewhile(re.compile(r"[^-!*?\[:/+][^*?\[:/+]*").fullmatch, words)]
        super().__init__(subs, words[len(subs) :], FACTS)

    def is_about(self, name: str) -> bool:
        """Whether it is about programs of this name."""
        return any(fnmatchcase(name, glob) for glob in self.names)


ANY = Run("*")
"""The pattern of a rule that has none."""


@functools.cache
def _regex(globs: tuple[str, ...]) -> re.Pattern[str]:
    made = []
    for glob in globs:
        body = re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        made.append(body if glob.startswith(("/", "~")) else f"(?:.*/)?{body}")
    return re.compile("|".join(made))


def _predicate(name: Any) -> Any:
    if name not in predicates.BY_NAME:
        raise ValueError(f"names a predicate that does not exist: {name!r}")
    return predicates.BY_NAME[name]


def _call(example: Any) -> Any:
    return {"tool": "Bash", "arguments": {"command": example}} if isinstance(example, str) else example


Examples = tuple[Annotated[Call, BeforeValidator(_call)], ...]


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
    run: tuple[Annotated[Any, PlainValidator(Run)], ...] = ()
    act: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    """Paths that it is about, for globs that may match them."""
    unless_path: tuple[str, ...] = ()
    detail: re.Pattern[str] | None = None
    inside: re.Pattern[str] | None = None
    """What a command whose output is a word of it has to contain."""
    when: Annotated[Any, PlainValidator(_predicate)] = None
    harmful: Examples = ()
    harmless: Examples = ()

    @property
    def example(self) -> str:
        """A harmful call, in one line; empty if it has none."""
        return self.harmful[0].shown if self.harmful else ""

    def holds(self, case: Case) -> bool:
        """Whether its conditions besides `run` hold for a command or an act."""
        if case.act is not None and not self._is_about(case.act, case.home):
            return False
        outputs = [one for word in case.command.words for one in word.inside] if self.inside else []
        is_inside = self.inside is None or any(self.inside.search(one.line) for one in outputs)
        return is_inside and (self.when is None or self.when(case))

    def _is_about(self, act: Act, home: str) -> bool:
        target = act.target
        if self.place and target.place not in self.place:
            return False
        shown = re.sub(rf"^{re.escape(home)}(?=/|\Z)", "~", target.path)
        may_be = target.glob and target.place != "generated" and any(_may_be(shown, one) for one in self.samples)
        return (
            (not self.path or may_be or _regex(self.path).fullmatch(shown) is not None)
            and (not self.unless_path or _regex(self.unless_path).fullmatch(shown) is None)
            and (self.detail is None or self.detail.search(act.detail) is not None)
        )


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
    if made is not None and not (made.run or made.act):
        problems.add((), "it has no `run` and no `act`")
    if made is None or problems.found:
        raise GuardError("; ".join(map(str, problems.found)))
    return made


def is_allowed(command: Command, allowed: Command) -> bool:
    """Whether a command is the allowed one, whose words may be globs."""
    if command.name != allowed.name or command.via != allowed.via or (command.wraps and not allowed.wraps):
        return False
    options, values = command.options, dict(allowed.options)
    any_option = values.pop("-*", None) is not None
    if not options.keys() >= values.keys() - {"--", "-"} or not (any_option or options.keys() <= values.keys()):
        return False
    if not all(fnmatchcase(value, values.get(name) or "*") for name, value in options.items()):
        return False
    texts, globs = [word.text for word in command.operands], [word.text for word in allowed.operands]
    if command.wraps:
        return True
    if any(unknown(text) or (".." in text.split("/") and text not in globs) for text in texts):
        return False  # `build*` is not `build/../..`
    if globs[-1:] == ["*"]:
        globs.pop()
        texts = texts[: len(globs)]
    return len(texts) == len(globs) and all(map(fnmatchcase, texts, globs))
