"""The judgement of one tool call: what it would do, which rule decides about it, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import rules, tools
from .call import Place
from .names import ALL, USUAL
from .places import Places
from .predicates import Case
from .programs import Programs
from .reader import Reader, Scope
from .reading import Reading
from .rules import SEVERITIES, Finding, GuardError, Rules, is_allowed

__all__ = ["ALL", "USUAL", "Judge", "Place", "Verdict"]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .reading import Command

Ruling = Literal["deny", "ask", "continue"]
Written: TypeAlias = "Callable[[str], str | None]"
"""Returns the text of a file that the session of a call wrote; None if it wrote no such file."""


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

    def wire(self) -> dict[str, str]:
        """What programs are told."""
        return {"decision": self.decision, "rule": self.rule, "reason": self.reason}


class Judge:
    """Judges calls by packs of rules. It is made once, and can be asked from any thread. It never raises about a call."""

    def __init__(
        self,
        packs: Sequence[str] = USUAL,
        *,
        allow: Sequence[str] = (),
        undecided: Ruling = "ask",
        own: Sequence[Mapping[str, Any]] = (),
        trusted: Sequence[str] = (),
    ) -> None:
        """`allow`: calls that no rule but those of `self` stops. `undecided`: the decision about what cannot be read.

        `own`: a person's own rules. `trusted`: MCP servers that are believed about the kinds of their tools.
        Raises `GuardError` for a pack, a rule or an allowed call that cannot be used.
        """
        self.undecided = undecided
        self._trusted = frozenset(trusted)
        self.home = os.path.realpath(os.path.expanduser("~"))
        made = [rule for name in packs for rule in rules.pack(name).rules]
        self.rules = (*made, *(rules.rule(given, "own", number) for number, given in enumerate(own, 1)))
        self._rules = Rules(self.rules)
        self._allowed = [command for line in allow for command in _allowed(line)]

    def read(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        place: Place | None = None,
        written: Written | None = None,
        *,
        kind: str | None = None,
    ) -> tuple[Reading, Places]:
        """Returns what a call does. Raises nothing about the call."""
        place = place or Place.here()
        reading = Reading()
        places = Places(place.cwd or "/", place.project, place.home or self.home)
        programs = Programs(places, written)
        reader = Reader(reading, home=places.home, root=places.project, started=programs.started)
        try:
            told = kind if kind and tools.server_of(tool) in self._trusted else ""
            tools.read(tool, arguments, reader, programs, Scope((place.cwd or "/",)), told=told)
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
        written: Written | None = None,
        *,
        kind: str | None = None,
    ) -> Verdict:
        """Returns the judgement of a call of this tool. `written` returns the text of a file that its session wrote.

        `kind`: what the tool is said to be, which counts if its server is trusted.
        """
        reading, places = self.read(tool, arguments, place, written, kind=kind)
        try:
            case = Case(reading, places, place.agent if place else "")
            found = [one for one in self._rules.findings(reading, case) if not self._permits(one)]
        except Exception as error:  # as above
            return self._undecided(reading, f"The call cannot be judged: {type(error).__name__}.")
        found.sort(key=lambda one: (one.rule.decision == "deny", SEVERITIES.index(one.rule.severity)), reverse=True)
        denied = found and found[0].rule.decision == "deny"
        doubt = next((one for one in reading.doubts if not self._is_allowed(one.command)), None)
        if doubt and not denied and (self.undecided == "deny" or (self.undecided == "ask" and not found)):
            return self._undecided(reading, doubt.why, found)
        if not found:
            return Verdict("continue", reading=reading)
        rule = found[0].rule
        return Verdict(rule.decision, rule.id, rule.severity, rule.why, rule.instead, reading, tuple(found))

    def _permits(self, found: Finding) -> bool:
        never = found.rule.pack == "self" or (found.act is not None and found.act.detail == "redirect")
        return not never and self._is_allowed(found.command)

    def _is_allowed(self, command: Command | None) -> bool:
        return command is not None and any(is_allowed(command, one) for one in self._allowed)

    def _undecided(self, reading: Reading, why: str, found: Sequence[Finding] = ()) -> Verdict:
        instead = "Write it so that it can be read: plain commands, with their words written out."
        return Verdict(self.undecided, "undecided", "medium", why, instead, reading, tuple(found))


def _allowed(line: str) -> list[Command]:
    """The commands of a line. Raises `GuardError` if it is no plain command."""
    reading = Reading()
    programs = Programs(Places("/", "/", "/nowhere"))
    Reader(reading, home="~", root="/", started=programs.started).read(line, Scope(("/",)))
    commands = reading.commands
    odd = reading.doubts or any(one.redirects or not one.name for one in commands)
    if odd or [one.wraps for one in commands].count(False) != 1:
        raise GuardError(f"guards.allow: {line!r} is no plain command (write one command, and `*` for further words)")
    return commands
