"""The format of a record: one JSON object a line, in the order in which things happened. The first line is the header.

A chain has a `begin`, an `ask` for each time that a hook is asked, an `answer` for each hook that was waited for, and an `end`
or `abandoned`. `params` are written if they differ from the last ones of their chain. In an `ask` they are the params that the
hook saw, and in an `answer` those after its edits.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ...model.decisions import Decision
from ...model.payloads import PlainModel
from ...model.trail import Notes

VERSION = 1
"""The version of the format. A reader refuses every other one."""

SETTINGS = ("stages", "events", "timeout", "approval_timeout", "hello_timeout", "timeouts", "respond", "may_edit")
"""The recorded settings of a hook: those that another program needs to answer in its place. They have no environment."""


class Line(BaseModel):
    """One line. An unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    at: float
    """Seconds since the host started."""


class Header(BaseModel):
    """The first line."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: Literal["record"]
    version: int
    time: str
    """The time when the host started."""
    picohook: str
    """The version of picohook that wrote it."""


class HookLine(Line):
    """A hook, before it is first asked or told, and again when it has changed."""

    type: Literal["hook"]
    hook: str
    runs: str
    settings: dict[str, Any]
    whole_modes: bool = False
    """As in PicoClaw: the hook is asked at all stages of a mode, and need not know all of them."""


class BeginLine(Line):
    """A chain begins."""

    type: Literal["begin"]
    chain: int
    stage: str
    params: dict[str, Any]
    said: dict[str, Any] | None = None
    """After a pause: the hook that paused, and the decision in place of its answer."""
    without: tuple[str, ...] = Field(default=(), strict=False)
    """After a pause: the hooks that are not asked again."""


class AskLine(Line):
    """A hook is asked."""

    type: Literal["ask"]
    chain: int
    hook: str
    params: dict[str, Any] | None = None
    stands_in: bool = False
    """Whether, after a pause, a decision replaces its answer. Then the hook itself is not asked."""


class AnswerLine(Line):
    """The answer of a hook, or its failure."""

    type: Literal["answer"]
    chain: int
    hook: str
    action: str
    seconds: float
    failed: str | None = None
    """The kind of its failure. The action is then the one of its `on_failure`."""
    error: str | None = None
    reason: str = ""
    feedback: str = ""
    notes: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    retries: int = 0
    params: dict[str, Any] | None = None
    answer: Any = None
    """The hook's answer, if it was not a decision."""


class WouldLine(AnswerLine):
    """The answer of a hook in shadow, maybe after the end of its chain."""

    type: Literal["would"]  # type: ignore[assignment] # the only difference


class EndLine(Line):
    """The outcome of a chain."""

    type: Literal["end"]
    chain: int
    action: str
    approved: bool | None = None
    reason: str = ""
    feedback: str = ""
    result: dict[str, Any] | None = None
    hook: str = ""
    skipped: tuple[str, ...] = Field(default=(), strict=False)
    """The hooks that were not asked because of their filters."""


class AbandonedLine(Line):
    """The caller of a chain was cancelled."""

    type: Literal["abandoned"]
    chain: int
    why: str


class EventLine(Line):
    """An event, and the hooks that were told of it."""

    type: Literal["event"]
    event: str
    payload: dict[str, Any]
    meta: dict[str, Any] = Field(default_factory=dict)
    hooks: tuple[str, ...] = Field(default=(), strict=False)


class WireLine(Line):
    """A raw line of a process. Only with `wire`."""

    type: Literal["wire"]
    hook: str
    sent: bool
    """True for a line that the hook received, False for one that it wrote."""
    line: str
    """The text of a line that is not an answer, escaped. A long line is cut."""


class CloseLine(Line):
    """The host has ended."""

    type: Literal["close"]


OfChain = BeginLine | AskLine | AnswerLine | EndLine | AbandonedLine
AnyLine = HookLine | OfChain | WouldLine | EventLine | WireLine | CloseLine

LINES: TypeAdapter[AnyLine] = TypeAdapter(Annotated[AnyLine, Field(discriminator="type")])

_DECISIONS = {kind.__name__: kind for kind in get_args(Decision)}


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """A decision as JSON."""
    values: dict[str, Any] = {"kind": type(decision).__name__}
    for field in fields(decision):
        value = getattr(decision, field.name)
        if isinstance(value, Notes):
            values[field.name] = value.wire()
        elif value:
            plain = value.wire() if isinstance(value, PlainModel) else value
            values[field.name] = plain if isinstance(plain, str) else dict(plain)
    return values


def decision_from_json(values: dict[str, Any]) -> Decision:
    """The decision with this JSON form. Raises `LookupError`, `TypeError` or `ValueError` for any other JSON."""
    fields = {name: value for name, value in values.items() if name != "hook"}
    kind = _DECISIONS[fields.pop("kind")]
    if "notes" in fields:
        notes = fields["notes"]
        fields["notes"] = Notes(**{**notes, "inject_messages": tuple(notes.get("inject_messages", ()))})
    decision: Decision = kind(**fields)
    return decision
