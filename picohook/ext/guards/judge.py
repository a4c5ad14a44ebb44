"""The judgement of one tool call: what it would do, which rule decides about it, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USUAL = ("shell", "git", "secrets", "network", "self")
"""The packs of a `[guards]` table that names none."""
ALL = (*USUAL, "packages", "cloud")

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

    @property
    def reason(self) -> str:
        """What a model is told: why, and what to do instead."""
        return " ".join(filter(None, (self.why, self.instead)))


class Judge:
    """Judges calls by packs of rules. It is made once, and can be asked from any thread. It never raises about a call."""

    def __init__(self, packs: Sequence[str] = USUAL, *, allow: Sequence[str] = (), undecided: Ruling = "ask") -> None:
        """`allow`: calls that no rule but those of `self` stops. `undecided`: the decision about what cannot be read."""
        self.packs = tuple(packs)
        self.allow = tuple(allow)
        self.undecided = undecided

    def judge(self, tool: str, arguments: Mapping[str, Any], place: Place | None = None) -> Verdict:
        """Returns the judgement of a call of this tool."""
        del tool, arguments, place
        return Verdict(self.undecided, "undecided", why="This call cannot be read.")
