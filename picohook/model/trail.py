"""The trail: for each hook of a stage, what it did, how long it took, and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

OutcomeAction: TypeAlias = Literal[
    "continue", "modify", "respond", "deny_tool", "skip", "retry", "pause", "abort_turn", "hard_abort"
]
"""The actions of an outcome, and of a hook in its trail."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Additions that may come with any decision."""

    system_message: str = ""
    """Shown to the user."""
    additional_context: str = ""
    """Appended to the system prompt of the next request."""
    inject_messages: tuple[dict[str, Any], ...] = ()
    """Appended to the messages of the next request."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form, without empty fields."""
        given = {
            "system_message": self.system_message,
            "additional_context": self.additional_context,
            "inject_messages": list(self.inject_messages),
        }
        return {key: value for key, value in given.items() if value}


@dataclass(slots=True)
class TrailEntry:
    """What one hook did in one stage."""

    hook: str
    action: OutcomeAction | Literal[""]
    """The hook's action, or the one that its failure counted as; empty if the chain did not wait for it."""
    duration: float = 0.0
    """Seconds."""
    error: str | None = None
    """Why the hook failed, or which part of its answer was not applied."""
    notes: Notes | None = None
    retries: int = 0
    reason: str = ""
    """The hook's own reason."""
    failure: str | None = None
    """If it failed: timeout, crashed, refused, reply, handshake or error."""
    skipped: bool = False
    """Whether it was not asked because its filter did not match."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        shown = {
            "hook": self.hook,
            "action": self.action,
            "duration_ms": round(self.duration * 1000, 3),
            "error": self.error,
            "reason": self.reason or None,
            "skipped": self.skipped or None,
            "retries": self.retries or None,
            "notes": None if self.notes is None else self.notes.wire(),
        }
        return {name: value for name, value in shown.items() if value is not None or name == "error"}


Trail = tuple[TrailEntry, ...]


@dataclass(frozen=True, slots=True)
class StageTrail:
    """The trail of one stage on the way to a result."""

    stage: str
    action: OutcomeAction
    """The outcome of the stage."""
    reason: str
    hook: str
    """The hook whose decision ended the chain, if one did."""
    trail: Trail

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        trail = [entry.wire() for entry in self.trail]
        return {"stage": self.stage, "action": self.action, "reason": self.reason, "hook": self.hook, "trail": trail}
