"""What an examination finds: one sentence each, and for all that is not well, what to do about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ...wire.text import cut, escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...model.spec import HookSpec

_SHOWN = 2048
"""Bytes of a message: much of it may be what a hook said."""


class Level(StrEnum):
    """How bad it is. Only an error makes the command fail."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    level: Level
    about: str
    """The machine, a configuration file, or a hook."""
    check: str
    """What was looked at, in one word."""
    message: str
    hint: str = ""
    """What to do about it: empty where all is well, and only there."""

    def __post_init__(self) -> None:
        assert bool(self.hint) == (self.level is not Level.OK), self
        for name in ("about", "message", "hint"):
            object.__setattr__(self, name, cut(escape(getattr(self, name)), _SHOWN))

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return asdict(self)


def about(spec: HookSpec) -> str:
    """What a finding about this hook is about."""
    return f"hook {spec.name}"


def confined_by(spec: HookSpec) -> str:
    """What may keep the hook from something that it needs; empty if nothing does."""
    return " and ".join(name for name in ("sandbox", "limits") if getattr(spec, name) is not None)


def count(findings: Sequence[Finding]) -> dict[Level, int]:
    """How many there are of each level."""
    levels = Counter(finding.level for finding in findings)
    return {level: levels[level] for level in Level}
