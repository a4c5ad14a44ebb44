"""A finding: one sentence, and for every problem a hint that says what to do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ...model.spec import HookSpec
from ...wire.text import cut, escape

_SHOWN = 2048
"""The most bytes of a message, which may quote a hook."""


class Level(StrEnum):
    """The levels of findings. Only an error makes the command fail."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of an examination: its level, its subject and a message."""

    level: Level
    about: str
    """The machine, a configuration file, or a hook."""
    check: str
    """The subject of the check, in one word."""
    message: str
    hint: str = ""
    """The way out. Only a finding at level `ok` has none."""

    def __post_init__(self) -> None:
        assert bool(self.hint) == (self.level is not Level.OK), self
        for name in ("about", "message", "hint"):
            object.__setattr__(self, name, cut(escape(getattr(self, name)), _SHOWN))

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return asdict(self)


def about(spec: HookSpec) -> str:
    """Returns the subject of findings about this hook."""
    return f"hook {spec.name}"


def confined_by(spec: HookSpec) -> str:
    """Returns the settings that may deny the hook something that it needs; empty if it has none."""
    return " and ".join(name for name in ("sandbox", "limits") if getattr(spec, name) is not None)


def count(findings: Sequence[Finding]) -> dict[Level, int]:
    """Returns the number of findings at each level."""
    levels = Counter(finding.level for finding in findings)
    return {level: levels[level] for level in Level}
