"""The judgement of one tool call: what it would do, which rule decides about it, and why."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from . import rules, tools
from .call import Place
from .expansion import Scope
from .memory import CallFiles
from .names import ALL, USUAL
from .places import Places
from .predicates import Case, cases
from .programs import started
from .reader import Reader
from .reading import Command, Reading
from .rules import ANY, SEVERITIES, GuardError, Rule, Run, is_allowed

__all__ = ["ALL", "USUAL", "Judge", "Place", "Verdict"]

UNDECIDED = "undecided"
_UNDECIDED = Rule(
    id=UNDECIDED,
    pack="",
    severity="medium",
    why="",
    instead="Write it so that it can be read: plain commands, with their words written out.",
)
"""What stands for a rule where a call cannot be read."""
Ruling = Literal["deny", "ask", "continue"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one call."""

    decision: Ruling
    rule: str = ""
    """The rule that decided, such as "git.force-push"; `UNDECIDED` if the call could not be read; empty if none did."""
    severity: str = ""
    why: str = ""
    """One sentence."""
    instead: str = ""
    """One sentence: the safer way."""
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    rules: tuple[Rule, ...] = field(default=(), compare=False, repr=False)
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
        self._likely = functools.lru_cache(2000)(self._candidates)
        self._allowed = [command for line in allow for command in _allowed(line, self.home)]

    def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        place: Place | None = None,
        written: Callable[[str], str | None] | None = None,
        *,
        kind: str | None = None,
    ) -> Verdict:
        """Returns the judgement of a call of this tool. `written` returns the text of a file that its session wrote.

        `kind`: what the tool is said to be, which counts if its server is trusted.
        """
        place, reading = place or Place.here(), Reading()
        places = Places(place.cwd or "/", place.project, place.home or self.home)
        told = kind if kind and tools.server_of(tool) in self._trusted else ""
        try:
            reader = Reader(reading, CallFiles(places, reading.written, written), started)
            tools.read(tool, arguments, reader, Scope((place.cwd or "/",)), told=told)
        except RecursionError:
            reading.doubt("The call is too deep to be read.")
        except Exception as error:  # a fault of the reader must not pass a call as safe
            reading.doubt(f"The call cannot be read: {type(error).__name__}.")
        found: list[Rule] = []
        try:
            for case in cases(reading, places.home):
                found += self._about(case)
        except Exception as error:  # as above
            reading.doubt(f"The call cannot be judged: {type(error).__name__}.")
        doubt = next((one.why for one in reading.doubts if not self._is_allowed(one.command)), "")
        if doubt and self.undecided != "continue":
            found.append(_UNDECIDED.model_copy(update={"decision": self.undecided, "why": doubt}))
        if not found:
            return Verdict("continue", reading=reading)
        found.sort(key=lambda one: (one.decision != "deny", one.id == UNDECIDED, -SEVERITIES.index(one.severity)))
        rule = found[0]
        return Verdict(rule.decision, rule.id, rule.severity, rule.why, rule.instead, reading, tuple(found))

    def _about(self, case: Case) -> list[Rule]:
        """The rules that are about a command or an act, and count."""
        command, act = case.command, case.act
        likely = self._likely(command.name, act.kind if act else "")
        about = [rule for rule, pattern in likely if pattern.holds(command) and rule.holds(case)]
        if about and (act is None or act.detail != "redirect") and self._is_allowed(command):
            return [rule for rule in about if rule.pack == "self"]
        return about

    def _candidates(self, name: str, kind: str) -> list[tuple[Rule, Run]]:
        """The rules that may be about such an act of a program, or about the program, each with its patterns for that."""
        likely = [rule for rule in self.rules if (kind in rule.act if kind else not rule.act)]
        return [(rule, run) for rule in likely for run in rule.run or (ANY,) if run.is_about(name)]

    def _is_allowed(self, command: Command | None) -> bool:
        return command is not None and any(is_allowed(command, one) for one in self._allowed)


def _allowed(line: str, home: str) -> list[Command]:
    """The commands of a line. Raises `GuardError` if it is no plain command."""
    reading = Reading()
    Reader(reading, CallFiles(Places("/", "/", home), {}), started).read(line, Scope(("/",)))
    commands = reading.commands
    odd = reading.doubts or any(one.redirects or not one.name for one in commands)
    if odd or [one.wraps for one in commands].count(False) != 1:
        raise GuardError(f"guards.allow: {line!r} is no plain command (write one command, and `*` for further words)")
    return commands
