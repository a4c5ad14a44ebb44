"""What one hook decides, and what the chain concludes from all of them.

`Decision` is a closed union: a hook of any kind ends in exactly one of these. An `Outcome` is what the embedder gets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union

from ..wire import words
from .trail import StageTrail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .encoded import Encoded
    from .payloads import LLMResponse, Payload, ToolResult
    from .trail import Notes, OutcomeAction, Trail, TrailEntry

P_co = TypeVar("P_co", bound="Payload", covariant=True)


@dataclass(frozen=True, slots=True)
class _Decided:
    reason: str = field(default="", kw_only=True)
    notes: Notes | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class _Refused(_Decided):
    """Of these the reason is what there is to say: `Deny("too dangerous")`."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue(_Decided):
    """Go on, nothing changed."""

    action: ClassVar[OutcomeAction] = words.CONTINUE


@dataclass(frozen=True, slots=True)
class Modify(_Decided):
    """Go on with these fields of the payload replaced, or with a merge patch applied to it."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    patch: Mapping[str, Any] | None = field(default=None, kw_only=True)
    action: ClassVar[OutcomeAction] = words.MODIFY


@dataclass(frozen=True, slots=True)
class Respond(_Decided):
    """This is the result: the tool (or the model) is not called."""

    result: Mapping[str, Any] | ToolResult | LLMResponse
    changes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    action: ClassVar[OutcomeAction] = words.RESPOND


@dataclass(frozen=True, slots=True)
class Deny(_Refused):
    """The tool is not run. From an approver: not approved."""

    result: Mapping[str, Any] | ToolResult | None = field(default=None, kw_only=True)
    """What the model is told in place of the denial. From code only: what comes over a wire has no say in it."""
    action: ClassVar[OutcomeAction] = words.DENY


@dataclass(frozen=True, slots=True)
class Approve(_Decided):
    """From an approver only: yes."""

    action: ClassVar[OutcomeAction] = words.CONTINUE


@dataclass(frozen=True, slots=True)
class Skip(_Refused):
    """The compaction is not done."""

    action: ClassVar[OutcomeAction] = words.SKIP


@dataclass(frozen=True, slots=True)
class Retry(_Decided):
    """Go round again, with the feedback as a user message, or with these fields of the payload replaced, or both."""

    feedback: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    action: ClassVar[OutcomeAction] = words.RETRY


@dataclass(frozen=True, slots=True)
class Pause(_Refused):
    """Hand control back to the embedder."""

    action: ClassVar[OutcomeAction] = words.PAUSE


@dataclass(frozen=True, slots=True)
class AbortTurn(_Refused):
    """End this turn with an error."""

    action: ClassVar[OutcomeAction] = words.ABORT_TURN


@dataclass(frozen=True, slots=True)
class HardAbort(_Refused):
    """End the agent loop."""

    action: ClassVar[OutcomeAction] = words.HARD_ABORT


Decision = Union[Continue, Modify, Respond, Deny, Approve, Skip, Retry, Pause, AbortTurn, HardAbort]

CONTINUE = Continue()
APPROVE = Approve()


_FAILED_HOW = {
    "timeout": ": it did not answer in time",
    "crashed": ": it crashed, or did not start",
    "refused": ": it answered with an error",
    "reply": ": its answer could not be used",
    "handshake": ": it could not be started",
}
"""What a model is told of each kind of failure. None of it is the hook's own text."""


@dataclass(slots=True)
class Outcome(Generic[P_co]):
    """What a stage's chain concluded."""

    stage: str
    action: OutcomeAction
    """One of the wire's actions; `modify` when anything changed, `continue` when nothing did."""
    payload: P_co
    """The payload after the chain: what to go on with."""
    reason: str = ""
    """For people. Of a hook that failed it holds the cause, in which there may be anything: see `reason_for_llm`."""
    trail: Trail = ()
    approved: bool | None = None
    """approve_tool only."""
    result: Any = None
    """With `respond`: the `ToolResult` or `LLMResponse` that stands."""
    feedback: str = ""
    """With `retry`: what to tell the model."""
    hook: str = ""
    """The hook whose decision ended the chain."""
    asked_about: P_co | None = field(default=None, repr=False, compare=False)
    """What that hook was asked about; None where no interceptor ended the chain."""
    asked: Encoded[Any] | None = field(default=None, init=False, repr=False, compare=False)
    """For the host: what hooks were asked about last, with its bytes. A copy of an outcome has it not."""

    @property
    def notes(self) -> tuple[Notes, ...]:
        """What hooks added beside their decisions, in the order they were asked."""
        return tuple(entry.notes for entry in self.trail if entry.notes is not None)

    @property
    def reason_for_llm(self) -> str:
        """The reason as a model may be told it: what the hook gave, or one short sentence if the hook failed."""
        decided = next((entry for entry in reversed(self.trail) if entry.hook == self.hook), None)
        if decided is None or decided.failure is None:
            return self.reason
        return f"hook {self.hook} failed{_FAILED_HOW.get(decided.failure, '')}"

    @property
    def intact(self) -> bool:
        """Whether the payload is still what the hooks saw last, to the byte, its meta aside."""
        if self.asked is None:
            return True
        saw = self.asked.payload.__dict__
        same = all(saw[name] is value for name, value in self.payload.__dict__.items() if name != "meta")
        return same and self.asked.intact

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        shown = {
            "stage": self.stage,
            "action": self.action,
            "payload": self.payload.wire(),
            "approved": self.approved,
            "result": None if self.result is None else self.result.wire(),
            "feedback": self.feedback or None,
            "reason": self.reason,
            "reason_for_llm": self.reason_for_llm if self.reason_for_llm != self.reason else None,
            "trail": [entry.wire() for entry in self.trail],
        }
        return {name: value for name, value in shown.items() if value is not None}

    @property
    def stage_trail(self) -> StageTrail:
        """What the stage's hooks did, without the payload."""
        return StageTrail(self.stage, self.action, self.reason, self.hook, self.trail)


@dataclass(slots=True)
class Asked(Generic[P_co]):
    """What came of asking one hook."""

    decision: Decision
    encoded: Encoded[P_co]
    """What to go on with: what was asked about, or what the hook made of it."""
    entry: TrailEntry
    result: Any = None
    answer: Any = None
    """What the hook answered, where that was no decision."""
