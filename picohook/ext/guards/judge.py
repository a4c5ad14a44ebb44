"""The judgement of one tool call: what it would do, which rule decides about it, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import rules, tools
from .names import ALL, USUAL
from .places import Places
from .predicates import Case
from .programs import Programs
from .reader import Reader, Scope
from .reading import Reading
from .rules import SEVERITIES, Allowed, Finding, GuardError, Index, Rule

__all__ = ["ALL", "USUAL", "Judge", "Place", "Verdict"]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .reading import Command

Ruling = Literal["deny", "ask", "continue"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is made."""

    cwd: str
    project: str = ""
    """The project's root; empty for the directory of `cwd`."""
    agent: str = ""
    """The agent that makes it, such as "claude"; empty if it is not known."""
    home: str = ""
    """The user's home directory; empty for that of this process."""

    @classmethod
    def here(cls) -> Place:
        """The current directory, for a caller that knows nothing better."""
        return cls(os.getcwd())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one call."""

    decision: Ruling
    rule: str = ""
    """The rule that decided, such as "git.force-push"; "undecided" if the call could not be read; empty if none did."""
    severity: str = ""
    why: str = ""
    """One sentence."""
    instead: str = ""
    """One sentence: the safer way."""
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    findings: tuple[Finding, ...] = field(default=(), compare=False, repr=False)
    """All rules that are about the call, the one that decided first."""

    @property
    def reason(self) -> str:
        """What a model is told: why, and what to do instead."""
        return " ".join(filter(None, (self.why, self.instead)))


class Judge:
    """Judges calls by packs of rules. It is made once, and can be asked from any thread. It never raises about a call."""

    def __init__(
        self,
        packs: Sequence[str] = USUAL,
        *,
        allow: Sequence[str] = (),
        undecided: Ruling = "ask",
        own: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`allow`: calls that no rule but those of `self` stops. `undecided`: the decision about what cannot be read.

        `own`: a person's own rules. Raises `GuardError` for a pack, a rule or an allowed call that cannot be used.
        """
        self.packs = tuple(packs)
        self.undecided = undecided
        self.home = rules.home()
        made = [rule for name in packs for rule in rules.pack(name).rules]
        made += [rules.rule(given, "own", at=at) for at, given in enumerate(own)]
        self.rules: tuple[Rule, ...] = tuple(made)
        self._index = Index.of(made)
        self.allow = tuple(allow)
        self._allowed = Allowed(_allowed(allow))

    def read(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        place: Place | None = None,
        written: Callable[[str], str | None] | None = None,
    ) -> tuple[Reading, Places]:
        """Returns what a call does. Raises nothing about the call."""
        place = place or Place.here()
        reading = Reading()
        home = place.home or self.home
        places = Places(place.cwd or "/", place.project, home)
        programs = Programs(places, written)
        reader = Reader(reading, home=home, root=places.project, started=programs.started)
        try:
            tools.read(tools.Call(tool, arguments, place.agent), reader, programs, Scope((place.cwd or "/",)))
        except RecursionError:
            reading.doubt("The call is too deep to be read.")
        except Exception as error:  # a fault of the reader must not pass a call as safe
            reading.doubt(f"The call cannot be read: {type(error).__name__}.")
        reading.written = programs.texts
        return reading, places

    def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        place: Place | None = None,
        written: Callable[[str], str | None] | None = None,
    ) -> Verdict:
        """Returns the judgement of a call of this tool. `written` returns the text of a file that its session wrote."""
        reading, places = self.read(tool, arguments, place, written)
        try:
            case = Case(reading, places, place.agent if place else "")
            found = [one for one in self._index.findings(reading, case) if not self._is_allowed(one)]
        except Exception as error:  # as above
            return self._undecided(reading, f"The call cannot be judged: {type(error).__name__}.", ())
        found.sort(key=_weight, reverse=True)
        if found and found[0].rule.decision == "deny":
            return _verdict(found, reading)
        doubt = next((one for one in reading.doubts if not self._allowed.permits(one.command)), None)
        if doubt is not None and (self.undecided == "deny" or not found) and self.undecided != "continue":
            return self._undecided(reading, doubt.why, tuple(found))
        return _verdict(found, reading) if found else Verdict("continue", reading=reading)

    def _is_allowed(self, found: Finding) -> bool:
        if found.rule.pack == "self" or (found.act is not None and found.act.detail == "redirect"):
            return False
        return self._allowed.permits(found.command)

    def _undecided(self, reading: Reading, why: str, found: tuple[Finding, ...]) -> Verdict:
        instead = "Write it so that it can be read: plain commands, with their words written out."
        return Verdict(self.undecided, "undecided", "medium", why, instead, reading, found)


def _weight(found: Finding) -> tuple[bool, int]:
    return found.rule.decision == "deny", SEVERITIES.index(found.rule.severity)


def _verdict(found: Sequence[Finding], reading: Reading) -> Verdict:
    rule = found[0].rule
    return Verdict(rule.decision, rule.id, rule.severity, rule.why, rule.instead, reading, tuple(found))


def _allowed(lines: Sequence[str]) -> list[Command]:
    """The commands of the lines. Raises `GuardError` for a line that is no plain command."""
    commands: list[Command] = []
    for line in lines:
        reading = Reading()
        programs = Programs(Places("/", "/", "/nowhere"))
        Reader(reading, home="~", root="/", started=programs.started).read(line, Scope(("/",)))
        plain = [one for one in reading.commands if one.name and not one.redirects]
        if (
            reading.doubts
            or not plain
            or len(plain) != len(reading.commands)
            or len([one for one in plain if not one.wraps]) != 1
        ):
            raise GuardError(
                f"guards.allow: {line!r} is no plain command (write one command, and `*` for further words)"
            )
        commands += plain
    return commands
