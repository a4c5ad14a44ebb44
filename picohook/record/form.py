"""What the lines of a record say, and what of that a replay is held to.

A record is a JSON object a line, in the order in which things happened; the first line is the header. A chain has a `begin`, an
`ask` for each time that a hook is asked, an `answer` for each hook that was waited for, and an `end`, or `abandoned`. `params`
are written only where they differ from the last ones of their chain: those of an `ask` are what that hook saw, those of an
`answer` what it made of them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ..model.decisions import Decision
from ..model.payloads import FrozenModel
from ..model.stages import FIXED
from ..model.trail import Notes
from ..wire import words

VERSION = 1
"""Of the format. A reader refuses every other one."""

KEPT = ("stages", "events", "timeout", "approval_timeout", "hello_timeout", "timeouts", "respond", "may_edit")
"""The settings of a hook that are recorded: what another program needs to stand in for it, and nothing of its environment."""


class Line(BaseModel):
    """One line. A key that is not known is a mistake: what it says would be lost."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    at: float
    """Seconds since the host began."""


class Header(BaseModel):
    """The first line."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: Literal["record"]
    version: int
    time: str
    """When the host began."""
    picohook: str
    """The version that wrote it."""


class HookLine(Line):
    """What a hook is, before it is first asked or told, and again when it was changed."""

    type: Literal["hook"]
    hook: str
    runs: str
    settings: dict[str, Any]
    whole_modes: bool = False
    """PicoClaw's grain: it is asked at all stages of a mode, and need not know all of them."""


class BeginLine(Line):
    """A chain begins."""

    type: Literal["begin"]
    chain: int
    stage: str
    params: dict[str, Any]
    said: dict[str, Any] | None = None
    """After a pause: the decision that answers for a hook."""
    without: tuple[str, ...] = Field(default=(), strict=False)
    """After a pause: who is not asked again."""


class AskLine(Line):
    """A hook is asked."""

    type: Literal["ask"]
    chain: int
    hook: str
    params: dict[str, Any] | None = None
    stands_in: bool = False
    """The hook itself is not asked: after a pause, a decision answers for it."""


class AnswerLine(Line):
    """What came of asking a hook."""

    type: Literal["answer"]
    chain: int
    hook: str
    action: str
    seconds: float
    failed: str | None = None
    """The kind of its failure; then the action is what its `on_failure` says."""
    error: str | None = None
    reason: str = ""
    feedback: str = ""
    notes: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    retries: int = 0
    params: dict[str, Any] | None = None
    answer: Any = None
    """What it said, where that was no decision."""


class EndLine(Line):
    """What a chain concluded."""

    type: Literal["end"]
    chain: int
    action: str
    approved: bool | None = None
    reason: str = ""
    feedback: str = ""
    result: dict[str, Any] | None = None
    hook: str = ""
    skipped: tuple[str, ...] = Field(default=(), strict=False)
    """Who was not asked, because of its filter."""


class AbandonedLine(Line):
    """A chain came to nothing: its caller gave up."""

    type: Literal["abandoned"]
    chain: int
    why: str


class EventLine(Line):
    """An event, and who was told of it."""

    type: Literal["event"]
    event: str
    payload: dict[str, Any]
    meta: dict[str, Any] = Field(default_factory=dict)
    hooks: tuple[str, ...] = Field(default=(), strict=False)


class WireLine(Line):
    """A raw line, where they are recorded."""

    type: Literal["wire"]
    hook: str
    sent: bool
    """Whether it went to the hook; else it came from it."""
    line: str
    """Its text, escaped; of a long one the beginning."""


class CloseLine(Line):
    """The host has ended."""

    type: Literal["close"]


OfChain = BeginLine | AskLine | AnswerLine | EndLine | AbandonedLine
AnyLine = HookLine | OfChain | EventLine | WireLine | CloseLine

LINES: TypeAdapter[AnyLine] = TypeAdapter(Annotated[AnyLine, Field(discriminator="type")])

FACTS = ("action", "failed", "reason", "feedback", "result", "notes", "payload")
"""What a replay is held to."""
FAILED = "failed"
"""The action of a hook that failed: what its `on_failure` made of that is not its own."""


def facts_of_answer(answer: AnswerLine, *, approves: bool) -> dict[str, Any]:
    """What a hook decided, as far as two programs that decide the same agree on it: what it comes to, not how it was said."""
    if answer.failed is not None:
        return {"action": FAILED, "failed": answer.failed}
    facts: dict[str, Any] = {"action": _action(answer, approves=approves)}
    if answer.params is not None:
        facts["payload"] = editable(answer.params)
    said = {
        "reason": answer.reason,
        "feedback": answer.feedback,
        "result": _result(answer.result),
        "notes": answer.notes,
    }
    return facts | {name: value for name, value in said.items() if value}


def _action(answer: AnswerLine, *, approves: bool) -> str:
    if approves:
        return "denied" if answer.action == words.DENY else "approved"
    if answer.action in {words.CONTINUE, words.MODIFY}:
        return words.CONTINUE if answer.params is None else words.MODIFY
    return answer.action


def facts_of_end(end: EndLine, answers: list[AnswerLine], params: dict[str, Any]) -> dict[str, Any]:
    """What a chain concluded, and which of its hooks failed on the way."""
    verdict = {None: end.action, True: "approved", False: "denied"}[end.approved]
    facts: dict[str, Any] = {"action": verdict, "payload": editable(params)}
    failed = {answer.hook: answer.failed for answer in answers if answer.failed is not None}
    said = {
        # Of a hook that failed it is the words of its failure, in which there may be anything.
        "reason": "" if end.hook in failed else end.reason,
        "feedback": end.feedback,
        "result": _result(end.result),
        "notes": [answer.notes for answer in answers if answer.notes],
        "failed": failed,
    }
    return facts | {name: value for name, value in said.items() if value}


def editable(params: dict[str, Any]) -> dict[str, Any]:
    """What of a payload hooks decide on. The rest is as it was asked, but for the marks that tracing leaves in it."""
    return {name: value for name, value in params.items() if name not in FIXED}


def _result(result: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if result is None else editable(result)


_DECISIONS = {kind.__name__: kind for kind in get_args(Decision)}


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """A decision that was taken elsewhere, whole."""
    said: dict[str, Any] = {"kind": type(decision).__name__}
    for field in fields(decision):
        value = getattr(decision, field.name)
        if isinstance(value, Notes):
            said[field.name] = value.wire()
        elif value:
            plain = value.wire() if isinstance(value, FrozenModel) else value
            said[field.name] = plain if isinstance(plain, str) else dict(plain)
    return said


def decision_from_json(said: dict[str, Any]) -> Decision:
    """The same, back. Raises `LookupError`, `TypeError` or `ValueError` for what is none."""
    given = {name: value for name, value in said.items() if name != "hook"}
    kind = _DECISIONS[given.pop("kind")]
    if "notes" in given:
        notes = dict(given["notes"])
        notes["inject_messages"] = tuple(notes.get("inject_messages", ()))
        given["notes"] = Notes(**notes)
    decision: Decision = kind(**given)
    return decision
