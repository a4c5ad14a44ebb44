"""A tool call: before_tool, approve_tool, the tool, after_tool.

`DecidedCall.ask` is what comes before the tool, and `conclude` what comes after it. A batch does the steps one by one.
"""

import copy
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypedDict, Unpack

from ..engine.asker import Asker
from ..engine.listener import Operation
from ..engine.resumed import Resumed, decided_by
from ..errors import PicohookError
from ..model.conversation import content_of
from ..model.decisions import Decision, Outcome
from ..model.encoded import CHANGED
from ..model.payloads import ToolCall, ToolResult, ToolReturn, deep_copy
from ..model.stages import AFTER_TOOL, BEFORE_TOOL
from ..model.trail import OutcomeAction
from ..protocol.codec import encode
from ..wire import words
from .abort import AbortTurnError, hard_abort_in, raise_if_ended
from .decided import Decided, Took

OnPause = Callable[[Outcome[ToolCall]], Decision]
Deliver = Callable[[ToolCall, ToolResult, int], Awaitable[ToolResult]]

DENIED_BY_HOOK = "Tool execution denied by hook: {}"
DENIED_BY_APPROVAL = "Tool execution denied by approval hook: {}"


class ToolRun(TypedDict, total=False):
    """The facts of a tool's run that its framework may report."""

    tool: str | None
    """The tool that ran. It has to be that of the decided call."""
    arguments: Mapping[str, Any] | None
    """The arguments with which it ran. They have to be those of the decided call."""
    duration: int | None
    """The time that it ran, in nanoseconds. By default, the time since the decision."""
    error: str | None
    """The error that it raised. An exception given as the result says it by itself."""


def call_digest(call: ToolCall) -> bytes:
    """The digest of a call's bytes. Raises `EncodeError` for a call that has no JSON form."""
    return hashlib.sha256(encode(call.wire())).digest()


def approved_digest(before: Outcome[ToolCall]) -> bytes | None:
    """The digest of the call that hooks were asked about last; None if the outcome holds another call by now.

    It shows that the tool runs the very call that hooks passed and approvers approved.
    """
    shown = before.asked
    if shown is not None and shown.payload is before.payload:
        return hashlib.sha256(shown.params()).digest()  # a later change in place is seen before the tool runs
    return call_digest(before.payload) if before.intact else None


class DecidedCall(Decided):
    """A tool call that hooks have decided on. The tool is to run with `call`, or the call has its `result` already."""

    def __init__(self, host: Asker, call: ToolCall, took: Took, on_pause: OnPause | None = None) -> None:
        super().__init__(host, took)
        self._on_pause = on_pause
        self.result: ToolResult | None = None
        """The result for the model, if the tool is not to run; otherwise None."""
        self.digest = b""
        """The digest of the call that approvers saw."""
        self._given = self._call = call
        self._begun = 0

    @property
    def call(self) -> ToolCall:
        """The call as hooks left it. This is a new copy each time, which the tool may change."""
        return self._call.deep_copy()

    @property
    def action(self) -> OutcomeAction:
        """`continue` if the tool is to run, `respond` if a hook answered the call, `deny_tool` if it was denied."""
        if self.result is None:
            return words.CONTINUE
        return words.RESPOND if self.outcomes[-1].action == words.RESPOND else words.DENY

    async def ask(self) -> None:
        """before_tool and approve_tool, and the event that the tool is about to run. Sets `result` if it is not to run.

        At each pause, the decision of `on_pause` takes the hook's place.
        """
        with self.begin().work():
            payload, decided = self._given, frozenset[str]()
            before = await self.host.before_tool(payload)
            self.take(before)
            while before.action == words.PAUSE and self._on_pause is not None:
                try:
                    decision = self._on_pause(before)
                except BaseException:
                    self.operation.ended(words.PAUSE)  # the pause lasts, in the framework's form
                    raise
                decided = decided_by(before, payload, self.host.hooks, decided)
                payload = before.payload
                before = await self.host.before_tool(payload, resumed=Resumed(before.hook, decision, decided))
                self.take(before)
            await self.approve(before)
        self.start()
        if self.result is not None:
            self.result = self.traced(self.result)
            self.operation.ended(self.action)

    async def conclude(self, value: Any, **ran: Unpack[ToolRun]) -> ToolResult:
        """after_tool, and the event that the call is done. Returns the result for the model. See `Host.conclude`."""
        with self.operation.work():
            returned = self.returned(value, **ran)
            after = await self.host.after_tool(returned)
            self.take(after)
            ended(self.host, returned, after.payload.result, returned.duration)
            raise_if_ended(after)
        self.operation.ended(payload=after.payload)
        return self.traced(after.payload.result)

    def again(self, call: ToolCall) -> Self | None:
        """The same decision, for another run of the same call; None for another call."""
        if call_digest(call) != call_digest(self._given):
            return None
        made = copy.copy(self)
        made.begin()
        made.outcomes = [outcome for outcome in self.outcomes if outcome.stage != AFTER_TOOL.name]
        made.start()
        return made

    def begin(self) -> Operation:
        """Begin the call, for listeners. Returns its new `operation`."""
        self.operation = self.host.operation("tool_call", self._given)
        return self.operation

    # The steps of a batch.

    async def approve(self, before: Outcome[ToolCall], deliver: Deliver | None = None) -> None:
        """Act on the outcome of before_tool, and ask approvers if the tool is to run. Sets `result` or `digest`.

        `deliver` gets a hook's answer, and emits the event that the call is done. Raises `PausedError` and `AbortTurnError`.
        """
        call = self._call = before.payload
        if before.action == words.RESPOND:
            started(self.host, call)
            self.result = before.result if deliver is None else await deliver(call, before.result, 0)
            if deliver is None:
                ended(self.host, call, before.result, 0)
            return
        if before.action == words.DENY:
            self.result = denied(self.host, before)
            return
        raise_if_ended(before)
        digest = approved_digest(before)
        if digest is None:
            self._deny(DENIED_BY_HOOK.format(CHANGED))
            return
        approval = await self.host.approve_tool(call)
        self.take(approval)
        if approval.approved:
            self.digest = digest
        else:
            self.result = denied(self.host, approval)

    def approved(self, call: ToolCall, digest: bytes) -> None:
        """Set the call that hooks approved earlier."""
        self._call, self.digest = call, digest

    def start(self) -> None:
        """Emit the event that the tool is about to run. A call that was changed since its approval is denied."""
        if self.result is not None:
            return
        own = self._call.deep_copy()  # nobody else can change it
        if call_digest(own) != self.digest:
            self._deny(DENIED_BY_APPROVAL.format("the call was changed after it was approved"))
            return
        self._call = own
        started(self.host, own)
        self._open = True
        self._begun = time.monotonic_ns()

    def returned(self, value: Any, **ran: Unpack[ToolRun]) -> ToolReturn:
        """The call with what its tool returned, or the exception that it raised.

        Raises `PicohookError` if another tool ran or it had other arguments, and `HardAbortError` if that ended a turn inside
        the tool.
        """
        spent = time.monotonic_ns() - self._begun
        self.close()
        text, tool, arguments = "", ran.get("tool"), ran.get("arguments")
        if tool is not None and tool != self._call.tool:
            text = f"the tool {tool} ran, and hooks have decided on {self._call.tool}"
        elif arguments is not None and arguments != self._call.arguments:
            text = f"the tool {self._call.tool} ran with other arguments than hooks have decided on"
        if text:
            not_run(self.host, self._call, text, text)
            raise PicohookError(text)
        result, raised = _result_of(value)
        duration = spent if (told := ran.get("duration")) is None else told
        return ToolReturn(**self._call.__dict__, result=result, duration=duration, error=raised or ran.get("error"))

    def _deny(self, text: str) -> None:
        self.result = not_run(self.host, self._call, text, text)


async def decide(
    host: Asker,
    call: ToolCall | Mapping[str, Any],
    took: Took,
    known: DecidedCall | None = None,
    on_pause: OnPause | None = None,
) -> DecidedCall:
    """Asks before_tool and approve_tool. Returns the decision. See `Host.decide`."""
    payload: ToolCall = deep_copy(BEFORE_TOOL.given(call))  # the caller's later changes do not count
    if known is not None and (decided := known.again(payload)) is not None:
        return decided
    decided = DecidedCall(host, payload, took, on_pause)
    await decided.ask()
    return decided


async def value_of(execute: Callable[[ToolCall], Any], call: ToolCall) -> Any:
    """Returns a tool's result, or the exception that it raises: the model is told either."""
    try:
        returned = execute(call)
        return await returned if hasattr(returned, "__await__") else returned
    except Exception as error:  # a tool can fail in any way
        return error


def denied(host: Asker, outcome: Outcome[ToolCall]) -> ToolResult:
    """The result of a call that hooks denied. The model gets the hook's own reason, and observers get the whole cause."""
    text = DENIED_BY_APPROVAL if outcome.approved is False else DENIED_BY_HOOK
    for_llm, whole = (
        text.format(reason) if reason.strip() else text.removesuffix(": {}")
        for reason in (outcome.reason_for_llm, outcome.reason)
    )
    return not_run(host, outcome.payload, for_llm, whole, outcome.result)


def not_run(host: Asker, call: ToolCall, text: str, reason: str, told: ToolResult | None = None) -> ToolResult:
    """Returns the result of a call whose tool is not run, and emits its event. Observers get `reason`, the model `text`."""
    host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": reason}, about=call)
    return told or ToolResult(for_llm=text, is_error=True)


def as_tool_result(returned: Any) -> ToolResult:
    """Returns a tool's return value as a result for the model, copied because the tool may change its own later."""
    if isinstance(returned, ToolResult):
        return deep_copy(returned)  # type: ignore[no-any-return] # as it came
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult(for_llm=returned)
    if isinstance(returned, dict) and "for_llm" in returned:
        return ToolResult.model_validate(deep_copy(returned))
    return ToolResult(for_llm=json.dumps(returned, ensure_ascii=False, default=str))


def _result_of(value: Any) -> tuple[ToolResult, str | None]:
    """Returns the text for the model about a tool's return value or exception, and the error, if any."""
    if not isinstance(value, Exception):
        try:
            return as_tool_result(value), None
        except Exception as failure:  # an object of a program's own can fail in any way
            value = failure
    if (ended_all := hard_abort_in(value)) is not None:
        raise ended_all from None  # the hard abort of a turn inside the tool
    # A hook may have ended a turn inside the tool.
    why = value.outcome.reason_for_llm if isinstance(value, AbortTurnError) else value
    error = f"{type(value).__name__}: {why}".removesuffix(": ")
    return ToolResult(for_llm=error, is_error=True), error


def started(host: Asker, call: ToolCall) -> None:
    """Emit the event that a tool is about to run."""
    host.emit("tool_exec_start", {"Tool": call.tool, "Arguments": call.arguments}, about=call)


def ended(host: Asker, call: ToolCall, result: ToolResult, duration: int) -> None:
    """Emit the event that a call is done."""
    payload = {
        "Tool": call.tool,
        "Duration": duration,
        "ForLLMLen": len(content_of(result)),
        "ForUserLen": len(result.for_user),
        "IsError": result.is_error,
        "Async": result.async_,
    }
    host.emit("tool_exec_end", payload, about=call)
