"""The data that a vendor's contract and the handlers of its hook files exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ...model.spec import Seconds, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...errors import HookError
    from ...model.decisions import Decision
    from .tools import ShownCall, ToolAlias
    from .vendor_table import Row

Failures: TypeAlias = Literal["strict", "vendor"]
"""The treatment of a handler's failure: `strict` denies where the vendor's agent would let a call through."""

LONGEST_TEXT = 10_000
"""The most characters of a context, or of a text for the user, that the vendors take."""


class Rule(Settings):
    """The conditions under which a handler runs, and the effects that its result may have: all that a dialect knows of it."""

    at: str
    """The handler's place in its file."""
    kind: Literal["command", "http", "prompt", "unsupported"] = "command"
    matcher: str = ""
    only_if: str = ""
    """A permission rule."""
    timeout: Seconds = 600.0
    in_background: bool = False
    """Whether it runs in the background: its texts come with the next prompt, and its decision does not count."""
    blocks_on_failure: bool = False
    continues_on_block: bool = False
    """For a prompt: whether its refusal leaves the turn alive."""
    context_limit: int = 0
    """The most tokens of its context; 0 if it has no limit of its own."""
    most_blocks: int | None = None
    """The number of times that it may keep a turn from ending; None if it has no limit of its own."""
    in_order: bool = False
    """Whether all handlers that run beside it run one after the other, in the order of the file."""
    identity: str = ""
    """Of handlers with the same identity, only the first runs; empty for a handler that always runs."""
    why: str = ""
    """The reason why it cannot run."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a dialect has besides the payload."""

    project: str = "/"
    session: str = ""
    """The session's id where the payload has none."""
    blocks: int = 0
    """The number of times that handlers have kept this turn from ending."""
    tools: Mapping[str, ToolAlias] = field(default_factory=dict)
    now: str = ""
    """The time, as ISO 8601."""


class HandlerInput(NamedTuple):
    """The input of a handler."""

    stdin: dict[str, Any]
    call: ShownCall | None = None
    """The tool call in the input."""
    env: Mapping[str, str] = {}
    """The environment variables that describe the event."""
    files: Mapping[str, str] = {}
    """Fields of `stdin` that have the text of a file, each with its path. They are filled in before a handler runs."""


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """The result of a handler: an ended process, an HTTP answer, a model's answer, or a failure."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    failure: HookError | None = None
    """The reason why there is no result."""


@dataclass(frozen=True, slots=True)
class HandlerAnswer:
    """The answer of one handler, in the words that all dialects share."""

    verdict: Literal["", "allow", "deny", "ask", "defer"] = ""
    reason: str = ""
    input: Mapping[str, Any] | None = None
    """The whole changed input of the tool."""
    output: Any = None
    """The changed output of the tool."""
    context: str = ""
    message: str = ""
    """For the user."""
    ends: str | None = None
    """The reason why the agent has to stop; None if it continues."""
    yields: bool = False
    """Whether the turn may end although work is left."""
    most_blocks: int | None = None
    """The number of times that its handler may keep a turn from ending; None if it has no limit of its own."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the handlers that run later in the session."""
    failure: HookError | None = None
    """The reason why it counts as an error, which in the vendor's agent blocks nothing."""
    ignored: tuple[str, ...] = ()
    """The fields that picohook does not support, or that mean nothing at this event."""
    permissions: Any = None
    """The vendor's own words for later calls that its yes is for, too."""


class About(NamedTuple):
    """The question that the handlers of an event have answered."""

    row: Row
    input: HandlerInput
    payload: Any
    strict: bool

    @property
    def call(self) -> ShownCall | None:
        """The tool call in the input."""
        return self.input.call


class GroupAnswer(NamedTuple):
    """The answer of all handlers of an event together."""

    decision: Decision
    asks: bool = False
    """Whether an approver has to say yes. Without an approver, the call is denied."""
    silent: bool = False
    """Whether an approver leaves the decision to the other approvers. Without others, the call is denied."""
    blocks: bool = False
    """Whether it keeps the turn from ending."""
    failures: tuple[HookError, ...] = ()
    """Failures that do not decide."""
    env: Mapping[str, str] = {}
    """Environment variables for the handlers of the file that run later in the session."""


def shortened(text: str) -> str:
    """The text, cut to what vendors take."""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
