"""The decision of one hook, and the outcome of a chain of hooks.

`Decision` is a closed union: every hook returns exactly one of its members. The embedder gets an `Outcome`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, Union

from ..wire import words
from .encoded import Encoded
from .payloads import LLMResponse, Payload, ToolResult
from .trail import Notes, OutcomeAction, StageTrail, Trail, TrailEntry

P_co = TypeVar("P_co", bound="Payload", covariant=True)


# A decision without fields of its own inherits everything from one of these two. Another `@dataclass` would make it all again,
# which takes long when a program starts.


@dataclass(frozen=True, slots=True)
class _Decided:
    reason: str = field(default="", kw_only=True)
    notes: Notes | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class _Refused(_Decided):
    """Decisions whose reason may be given by position: `Deny("too dangerous")`."""

    reason: str = ""


class Continue(_Decided):
    """Continue without a change."""

    __slots__ = ()
    action: ClassVar[OutcomeAction] = words.CONTINUE


@dataclass(frozen=True, slots=True)
class Modify(_Decided):
    """Continue with these fields of the payload replaced, or with a merge patch applied to it."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    patch: Mapping[str, Any] | None = field(default=None, kw_only=True)
    action: ClassVar[OutcomeAction] = words.MODIFY


@dataclass(frozen=True, slots=True)
class Respond(_Decided):
    """Use this result, and do not call the tool or the model."""

    result: Mapping[str, Any] | ToolResult | LLMResponse
    changes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    action: ClassVar[OutcomeAction] = words.RESPOND


@dataclass(frozen=True, slots=True)
class Deny(_Refused):
    """Do not run the tool. From an approver: not approved."""

    result: Mapping[str, Any] | ToolResult | None = field(default=None, kw_only=True)
    """The result for the model in place of the denial. Only hooks in code can set it, not hooks on the wire."""
    severity: str = field(default="", kw_only=True)
    """The severity of the call, in the hook's own words, such as `high`."""
    action: ClassVar[OutcomeAction] = words.DENY


@dataclass(frozen=True, slots=True)
class Approve(_Decided):
    """The tool may run. Only approvers can return this."""

    grant: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The later calls that are approved too, as the wire has them; None if it is this call alone."""
    action: ClassVar[OutcomeAction] = words.CONTINUE


class Skip(_Refused):
    """Do not compact."""

    __slots__ = ()
    action: ClassVar[OutcomeAction] = words.SKIP


@dataclass(frozen=True, slots=True)
class Retry(_Decided):
    """Start another round, with the feedback as a user message, with these fields of the payload replaced, or both."""

    feedback: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    action: ClassVar[OutcomeAction] = words.RETRY


class Pause(_Refused):
    """Hand control back to the embedder."""

    __slots__ = ()
    action: ClassVar[OutcomeAction] = words.PAUSE


class AbortTurn(_Refused):
    """End this turn with an error."""

    __slots__ = ()
    action: ClassVar[OutcomeAction] = words.ABORT_TURN


class HardAbort(_Refused):
    """End the agent loop."""

    __slots__ = ()
    action: ClassVar[OutcomeAction] = words.HARD_ABORT


Decision = Union[Continue, Modify, Respond, Deny, Approve, Skip, Retry, Pause, AbortTurn, HardAbort]

Plain = Union[Continue, Deny, Skip, Pause, AbortTurn, HardAbort]
"""The decisions that need nothing but a reason."""

CONTINUE = Continue()
APPROVE = Approve()


_FAILED_HOW = {
    "timeout": ": it did not answer in time",
    "crashed": ": it crashed, or did not start",
    "refused": ": it answered with an error",
    "reply": ": its answer could not be used",
    "handshake": ": it could not be started",
    "absent": ": no worker serves it",
    "unreachable": ": it cannot be reached",
    "busy": ": it has too much to do",
    "forbidden": ": it may not be asked",
    "too_large": ": the question is too large",
    "digest": ": its answer could not be used",
    "breaker": ": it failed several times before",
}
"""The text for a model about each kind of failure. It has none of the hook's own text."""


@dataclass(slots=True)
class Outcome(Generic[P_co]):
    """The outcome of one stage's chain."""

    stage: str
    action: OutcomeAction
    """An action of the protocol: `modify` if anything changed, `continue` if nothing did, or the one that ended the chain."""
    payload: P_co
    """The payload after the chain. Use this one."""
    reason: str = ""
    """The reason, for people. If a hook failed, it has the cause, which may be any text: give models `reason_for_llm`."""
    trail: Trail = ()
    approved: bool | None = None
    """Whether the tool may run; only from approve_tool."""
    result: Any = None
    """With `respond`: the `ToolResult` or `LLMResponse` to use."""
    feedback: str = ""
    """With `retry`: the text for the model."""
    hook: str = ""
    """The hook whose decision ended the chain."""
    asked_about: P_co | None = field(default=None, repr=False, compare=False)
    """The payload that this hook was asked about; None if no interceptor ended the chain."""
    asked: Encoded[Any] | None = field(default=None, init=False, repr=False, compare=False)
    """For the host: the last payload that hooks saw, with its bytes. Copies of an outcome do not have it."""

    @property
    def notes(self) -> tuple[Notes, ...]:
        """The notes that hooks added, in the order of the hooks. A guard that is asked again adds the same note once."""
        noted = [(entry.hook, entry.notes) for entry in self.trail if entry.notes is not None]
        return tuple([note for place, (hook, note) in enumerate(noted) if (hook, note) not in noted[:place]])

    @property
    def reason_for_llm(self) -> str:
        """The reason, safe for a model: the hook's own; if the hook failed, one short sentence."""
        if not self.hook:
            return self.reason
        decided = next((entry for entry in reversed(self.trail) if entry.hook == self.hook), None)
        if decided is None or decided.failure is None:
            return self.reason
        return f"hook {self.hook} failed{_FAILED_HOW.get(decided.failure, '')}"

    @property
    def severity(self) -> str:
        """The severity of the denial that ended the chain; empty without one."""
        return next((entry.severity for entry in reversed(self.trail) if entry.hook == self.hook), "")

    @property
    def intact(self) -> bool:
        """Whether the payload is still the last one that hooks saw, byte for byte. The meta may differ."""
        if self.asked is None:
            return True
        saw = self.asked.payload.__dict__
        same = all(saw[name] is value for name, value in self.payload.__dict__.items() if name != "meta")
        return same and self.asked.intact

    def wire(self, *, payload: bool = True) -> dict[str, Any]:
        """The plain JSON form, with the payload or without it."""
        safe = self.reason_for_llm
        shown: dict[str, Any] = {
            "stage": self.stage,
            "action": self.action,
            "payload": self.payload.wire() if payload else None,
            "approved": self.approved,
            "result": None if self.result is None else self.result.wire(),
            "feedback": self.feedback or None,
            "reason": self.reason,
            "reason_for_llm": None if safe == self.reason else safe,
            "severity": self.severity or None,
            "trail": [entry.wire() for entry in self.trail],
        }
        return {name: value for name, value in shown.items() if value is not None}

    @property
    def stage_trail(self) -> StageTrail:
        """The trail with its stage and outcome, without the payload."""
        return StageTrail(self.stage, self.action, self.reason, self.hook, self.trail)


@dataclass(slots=True)
class Asked(Generic[P_co]):
    """The result of asking one hook."""

    decision: Decision
    encoded: Encoded[P_co]
    """The payload to continue with: the one that the hook was asked about, or its edit."""
    entry: TrailEntry
    result: Any = None
    answer: Any = None
    """The hook's answer, if it was not a decision."""
