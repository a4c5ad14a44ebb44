"""The parts of a dialect: a table of events, and pure functions. Each does what only this vendor does.

`Dialect` has what all vendors do: it tells handlers about a payload (`encode`), selects those that run (`select`), and reads
their results (`decode`), and joins their answers (`merge`).

A dialect is the contract of another system with its hooks. It starts no process and reads no clock. It gets the result of a
handler, and returns its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ...errors import HookError
from ...model.payloads import Finish, Prompt, ToolCall, ToolReturn
from ...model.spec import Seconds, Settings
from .tools import shown_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from .tools import ShownCall, ToolAlias

Failures: TypeAlias = Literal["strict", "vendor"]
"""The treatment of a handler's failure: `strict` denies where the vendor's agent would let a call through."""

LONGEST_TEXT = 10_000
"""The most characters of a context, or of a text for the user, that the vendors take."""


class Row(NamedTuple):
    """One event of a dialect: where its handlers are asked, and which fields they read and write."""

    stage: str = ""
    """The stage at which its handlers are asked; empty if they only observe, or never run."""
    kind: str = ""
    """The kind of event at which they run, if there is no stage."""
    gate: bool = False
    """Whether its handlers can refuse something in the vendor's agent. In strict, a failure of such a handler is a refusal."""
    matched: str = ""
    """The field that matchers are compared with, or the fixed word for this event; empty if matchers are ignored."""
    once: bool = False
    """Whether it happens once a session, at the first prompt."""
    reads: tuple[str, ...] = ()
    """The fields that its handlers read, beside the common ones."""
    writes: tuple[str, ...] = ()
    """The fields that its handlers write, beside the common ones."""
    blocks: str = ""
    """The effect of a block here, for people; empty if it has no effect."""
    unsupported: Mapping[str, str] = {}
    """Fields that picohook does not support, each with the reason."""
    why: str = ""
    """The reason why picohook does not support the event; empty if it does."""

    @property
    def supported(self) -> bool:
        """Whether its handlers run."""
        return bool(self.stage or self.kind)


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

    cwd: str = "/"
    project: str = "/"
    session: str = ""
    """The session's id where the payload has none."""
    blocks: int = 0
    """The number of times that handlers have kept this turn from ending."""
    tools: Mapping[str, ToolAlias] = field(default_factory=dict)
    now: str = ""
    """The time, as ISO 8601."""

    @property
    def blocked(self) -> bool:
        """Whether a handler has kept this turn from ending before."""
        return self.blocks > 0


class HandlerInput(NamedTuple):
    """The input of a handler."""

    stdin: dict[str, Any]
    call: ShownCall | None = None
    """The tool call in the input."""
    env: Mapping[str, str] = {}
    """The environment variables that describe the event."""
    files: Mapping[str, str] = {}
    """Fields of `stdin` that have the text of a file, each with its path. They are filled in before a handler runs."""
    names: Mapping[str, str] = {}
    """For the tools of a request, the names that the system has for them."""


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


@dataclass(frozen=True, slots=True)
class Dialect:
    """The contract of one system with its hooks."""

    title: str
    version: str
    """The version of the contract that picohook follows."""
    events: Mapping[str, Row]
    common: tuple[str, ...]
    """The fields that all handlers read."""
    answers: tuple[str, ...]
    """The fields that all handlers may write."""
    unsupported: Mapping[str, str]
    """Fields, settings of a file and environment variables that picohook does not support, each with the reason."""
    tell: Callable[[str, Payload | Event, ShownCall | None, Facts], HandlerInput | None]
    """Returns the handlers' input about a payload; None if the event does not happen with it."""
    matches: Callable[[str, str, Sequence[str]], bool]
    """Whether a matcher at an event matches one of the names that a payload has."""
    read: Callable[[str, Rule, HandlerResult, Failures], HandlerAnswer]
    """Returns the answer in a handler's result, strict only for a gate. Raises `HookError` for a failure."""
    join: Callable[[str, Sequence[HandlerAnswer], HandlerInput, Payload, Failures], GroupAnswer]
    """Returns the answers joined, without their failures. Raises the `HookError` that decides."""
    counted: Callable[[str, Sequence[HandlerAnswer], HandlerInput, Failures], Sequence[HandlerAnswer]] = (
        lambda _event, answers, _input, _failures: answers
    )
    """Returns the answers as the system counts them."""
    shown: Callable[[ShownCall, str], ShownCall] = lambda call, _tool: call
    """Returns a call as the system makes it. Takes it with the names of the table of tools, and the host's name of its tool."""
    names: Callable[[str, str, HandlerInput], Sequence[str]] = lambda _event, name, _input: (name,)
    """Returns the names that matchers may have for the payload, of which the first is given."""
    failed: Callable[[str, Rule, HandlerResult, HookError], HandlerAnswer] = lambda _event, _rule, _result, error: (
        HandlerAnswer(failure=error)
    )
    """Returns the answer of a handler that failed."""
    parts_failures: bool = True
    """Whether the results of failed calls are for events whose names end in `Failure`, and for no others."""
    hides: tuple[str, ...] = ()
    """Beginnings of names of environment variables that handlers do not inherit."""
    most_blocks: int | None = 8
    """The number of times in a row that handlers may keep a turn from ending; None if each handler has its own limit."""
    chain: Callable[[str, HandlerInput, HandlerAnswer], HandlerInput] | None = None
    """Returns the next handler's input after an answer, where handlers run one after the other. `join` gets the last input.

    None if handlers do not read what earlier ones have answered.
    """

    def encode(self, event: str, payload: Payload | Event, facts: Facts) -> HandlerInput | None:
        """Returns the handlers' input about a payload; None if the event does not happen with it."""
        call: ShownCall | None = None
        if isinstance(payload, Prompt | Finish):
            of_subagent = bool(payload.meta.parent_turn_id)
            if of_subagent is not event.lower().startswith("subagent"):
                return None
        if isinstance(payload, Prompt) and self.events[event].stage != "before_prompt":
            return None
        if isinstance(payload, ToolCall):
            failed = isinstance(payload, ToolReturn) and payload.result.is_error
            if self.parts_failures and failed is not event.endswith("Failure"):
                return None
            call = self.shown(shown_call(payload.tool, payload.arguments, facts.cwd, facts.tools), payload.tool)
        return self.tell(event, payload, call, facts)

    def select(self, event: str, rules: Sequence[Rule], handler_input: HandlerInput, facts: Facts) -> list[int]:
        """Returns the indexes of the handlers that run. Of handlers with the same identity, only the first runs."""
        matched = self.events[event].matched
        name = str(handler_input.stdin.get(matched, matched))
        names = self.names(event, name, handler_input) if name else ()
        chosen: dict[str, int] = {}
        for index, rule in enumerate(rules):
            if (not names or self.matches(event, rule.matcher, names)) and _may_fire(rule, handler_input, facts):
                chosen.setdefault(rule.identity or str(index), index)
        return list(chosen.values())

    def decode(self, event: str, rule: Rule, result: HandlerResult, failures: Failures) -> HandlerAnswer:
        """Returns the answer in a handler's result. A failure is a field of it. Strict counts more results as failures."""
        try:
            if result.failure is not None:
                raise result.failure
            answer = self.read(event, rule, result, failures if self.events[event].gate else "vendor")
        except HookError as error:
            return self.failed(event, rule, result, error)
        context = answer.context[: rule.context_limit * 4 or None]  # a token has about four characters
        return replace(answer, context=context, most_blocks=rule.most_blocks)

    def merge(
        self,
        event: str,
        answers: Sequence[HandlerAnswer],
        handler_input: HandlerInput,
        payload: Payload,
        failures: Failures,
    ) -> GroupAnswer:
        """Returns the group's answer. In strict, raises the first failure of a gate, unless a handler denies.

        A failure is never an approval. So it is also raised where calls are approved, even as the vendor.
        """
        answers = self.counted(event, answers, handler_input, failures)
        failed = tuple(answer.failure for answer in answers if answer.failure is not None)
        row, denied = self.events[event], any(one.verdict == "deny" or one.ends is not None for one in answers)
        if failed and not denied and row.gate and (failures == "strict" or row.stage == "approve_tool"):
            raise failed[0]
        joined = self.join(event, answers, handler_input, payload, failures)
        return joined._replace(failures=(*failed, *joined.failures))


def _may_fire(rule: Rule, handler_input: HandlerInput, facts: Facts) -> bool:
    """Whether a handler's permission rule matches the call, or may match it."""
    if not rule.only_if:
        return True
    from .permission_rule import fires  # few files have one

    call = handler_input.call
    return call is not None and fires(rule.only_if, call.tool, call.input, facts.cwd, facts.project)


def shortened(text: str) -> str:
    """The text, cut to what vendors take."""
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
