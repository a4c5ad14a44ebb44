"""The result of a proof of life: a call that hooks must deny, and their answers."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..wire import words
from .payloads import ToolCall
from .trail import StageTrail

Verdict: TypeAlias = Literal["denied", "failed", "not_denied"]
"""`denied`: a hook denied the call. `failed`: it was denied only because a hook failed. `not_denied`: it could have run."""

VERDICTS: tuple[Verdict, ...] = ("denied", "failed", "not_denied")
"""All verdicts, from the best to the worst."""
DENIALS = frozenset({words.DENY, words.ABORT_TURN, words.HARD_ABORT})
"""The actions that keep a call from running for good."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A harmful call and the answers of the hooks that were asked about it. No tool ran it."""

    call: ToolCall
    gate: str
    """The hook whose canary it is, and which was asked alone; empty if all hooks were asked."""
    verdict: Verdict
    hook: str
    """The hook that denied the call, or whose failure denied it; empty if none did."""
    answers: tuple[str, ...]
    """The answer at each stage, in words."""
    trails: tuple[StageTrail, ...] = ()
    """The decisions of each hook at each stage."""

    @property
    def why(self) -> str:
        """All answers, in words."""
        return "; ".join(self.answers)

    def wire(self) -> dict[str, Any]:
        """The plain JSON form, without the arguments and the trails."""
        names = {"tool": self.call.tool, "gate": self.gate, "verdict": self.verdict, "hook": self.hook}
        return {**names, "why": self.why}
