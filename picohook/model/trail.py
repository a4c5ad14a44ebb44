"""The trail of a stage: for each hook, its action, its duration, and the cause of its failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

OutcomeAction: TypeAlias = Literal[
    "continue", "modify", "respond", "deny_tool", "skip", "retry", "pause", "abort_turn", "hard_abort"
]
"""The actions of an outcome, and of a hook in its trail."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Additions that any decision can have."""

    system_message: str = ""
    """Shown to the user."""
    additional_context: str = ""
    """Appended to the system prompt of the next request."""
    inject_messages: tuple[dict[str, Any], ...] = ()
    """Appended to the messages of the next request."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form, without empty fields."""
        fields = {
            "system_message": self.system_message,
            "additional_context": self.additional_context,
            "inject_messages": list(self.inject_messages),
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(slots=True)
class TrailEntry:
    """One hook's part in a stage."""

    hook: str
    action: OutcomeAction | Literal[""]
    """The hook's action, or the action that its failure counted as; empty if the chain did not wait for the hook."""
    duration: float = 0.0
    """The seconds that the hook took."""
    error: str | None = None
    """The reason why the hook failed, or which part of its answer was not applied."""
    notes: Notes | None = None
    retries: int = 0
    reason: str = ""
    """The hook's own reason."""
    failure: str | None = None
    """The kind of its failure, such as timeout or crashed; None if it did not fail."""
    skipped: bool = False
    """Whether its filter did not match, so that it was not asked."""
    degraded: str = ""
    """The hook that decided in its place, and the cause, as in `local: absent`; empty if it decided itself."""
    severity: str = ""
    """The severity of its denial."""
    grant: Mapping[str, Any] | None = None
    """The later calls that its approval is for too."""
    would: str = ""
    """In shadow: the action that it would have had, or `pending`, `failed` or `dropped`. It is set after the chain's end."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        shown: dict[str, Any] = {
            "hook": self.hook,
            "action": self.action,
            "duration_ms": round(self.duration * 1000, 3),
            "error": self.error,
        }
        more: dict[str, Any] = {
            "reason": self.reason,
            "severity": self.severity,
            "skipped": self.skipped,
            "retries": self.retries,
            "notes": self.notes and self.notes.wire(),
            "degraded": self.degraded,
            "would": self.would,
            "grant": self.grant and dict(self.grant),
        }
        return shown | {name: value for name, value in more.items() if value not in (None, "", 0)}


Trail = tuple[TrailEntry, ...]


@dataclass(frozen=True, slots=True)
class StageTrail:
    """The trail of one stage, with its outcome."""

    stage: str
    action: OutcomeAction
    """The outcome of the stage."""
    reason: str
    hook: str
    """The hook whose decision ended the chain; empty if none did."""
    trail: Trail

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        trail = [entry.wire() for entry in self.trail]
        return {"stage": self.stage, "action": self.action, "reason": self.reason, "hook": self.hook, "trail": trail}
