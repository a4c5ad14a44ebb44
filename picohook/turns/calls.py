"""A tool call and a model call in their steps, with everything that hooks have a say in.

`Host.run_tool` and `Host.run_llm` are these steps for one call; `turn` takes them apart for a whole batch.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model.conversation import content_of
from ..model.encoded import CHANGED
from ..model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult, ToolReturn, apart, traced
from ..model.stages import BEFORE_LLM, BEFORE_TOOL
from ..protocol.codec import encode
from ..wire import words
from .errors import AbortTurnError, HardAbortError, PausedError, RetryLimitError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..engine.engine import Engine
    from ..model.decisions import Outcome
    from ..model.payloads import Payload
    from ..model.trail import Notes, StageTrail

    Took = Callable[[Outcome[Any]], None]
    Deliver = Callable[[ToolCall, ToolResult, int], Awaitable[ToolResult]]

DENIED_BY_HOOK = "Tool execution denied by hook: {}"
DENIED_BY_APPROVAL = "Tool execution denied by approval hook: {}"


def ignore(_: Outcome[Any]) -> None:
    """Nobody wants to see the outcomes."""


class Trails:
    """What hooks did at each stage on the way to a result."""

    def __init__(self, took: Took = ignore) -> None:
        self.all: list[StageTrail] = []
        self._took = took

    def take(self, outcome: Outcome[Any]) -> None:
        """One more stage was concluded."""
        self.all.append(outcome.stage_trail)
        self._took(outcome)


class Rounds:
    """How often hooks may still ask to go round again."""

    def __init__(self, host: Engine, used: int = 0) -> None:
        self.used = used
        self._host = host

    def spend(self, feedback: str, about: Payload) -> None:
        """One more round. Raises `RetryLimitError` when there is none left."""
        limit = self._host.retry_limit
        if self.used >= limit:
            last = f"; the last one: {feedback}" if feedback.strip() else ""
            raise RetryLimitError(f"hooks asked for another round more than {limit} times{last}")
        self.used += 1
        told = {"Attempt": self.used, "MaxRetries": limit, "Reason": feedback, "Error": "", "Backoff": 0}
        self._host.emit("llm_retry", told, about=about)


# One tool call: decide, execute, conclude.


@dataclass(slots=True)
class Decided:
    """A call that hooks have decided on: it is to run as it is, or its result stands already."""

    call: ToolCall
    result: ToolResult | None = None
    digest: bytes = b""
    """Of what approvers saw."""


async def run_tool(host: Engine, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
    """before_tool, approve_tool, the tool, after_tool. What guards and approvers saw is what runs, or it is denied."""
    trails = Trails(host.take_note)
    before = await host.before_tool(
        apart(BEFORE_TOOL.given(call))
    )  # what the caller does to its own call from here on changes nothing
    trails.take(before)
    decided = await approve(host, before, trails.take)
    result = decided.result
    if result is None:
        returned = await execute_tool(host, decided, execute)
        result = returned if isinstance(returned, ToolResult) else await conclude(host, returned, trails.take)
    return traced(result, trails.all)


async def approve(
    host: Engine, before: Outcome[ToolCall], took: Took = ignore, deliver: Deliver | None = None
) -> Decided:
    """Take what before_tool concluded, and ask for approval where the tool is to run.

    `deliver` brings a hook's answer to where it goes, and tells that the call is done.
    """
    call = before.payload
    if before.action == words.RESPOND:
        started(host, call)
        if deliver is not None:
            return Decided(call, await deliver(call, before.result, 0))
        ended(host, call, before.result, 0)
        return Decided(call, before.result)
    if before.action == words.DENY:
        return Decided(call, denied(host, before))
    raise_if_ended(before)
    digest = _seen_digest(before)
    if digest is None:
        text = DENIED_BY_HOOK.format(CHANGED)
        return Decided(call, not_run(host, call, text, text))
    approval = await host.approve_tool(call)
    took(approval)
    if not approval.approved:
        return Decided(call, denied(host, approval))
    return Decided(call, digest=digest)


async def execute_tool(host: Engine, decided: Decided, execute: Callable[[ToolCall], Any]) -> ToolReturn | ToolResult:
    """Run the tool on exactly the call that was approved; a changed one is denied."""
    call = decided.call
    own = call.apart()  # so that the tool cannot change what hooks see
    if call_digest(own) != decided.digest:
        text = DENIED_BY_APPROVAL.format("the call was changed after it was approved")
        return not_run(host, call, text, text)
    started(host, call)
    begun = time.monotonic_ns()
    error: str | None = None
    try:
        result = as_tool_result(await _called(execute, own))
    except Exception as failure:  # noqa: BLE001 - a tool that fails is a result that the model is told
        if (ended_all := _hard_abort_in(failure)) is not None:
            raise ended_all from None  # of a turn inside the tool
        # A hook may have ended a turn inside the tool.
        said = failure.outcome.reason_for_llm if isinstance(failure, AbortTurnError) else failure
        error = f"{type(failure).__name__}: {said}".removesuffix(": ")
        result = ToolResult(for_llm=error, is_error=True)
    return ToolReturn(**call.__dict__, result=result, duration=time.monotonic_ns() - begun, error=error)


def _hard_abort_in(failure: BaseException) -> HardAbortError | None:
    if isinstance(failure, BaseExceptionGroup):
        return next(filter(None, map(_hard_abort_in, failure.exceptions)), None)
    return failure if isinstance(failure, HardAbortError) else None


async def conclude(host: Engine, returned: ToolReturn, took: Took = ignore) -> ToolResult:
    """after_tool, and the event that it is done."""
    after = await host.after_tool(returned)
    took(after)
    ended(host, returned, after.payload.result, returned.duration)
    raise_if_ended(after)
    return after.payload.result


def denied(host: Engine, outcome: Outcome[ToolCall]) -> ToolResult:
    """The result of a call that hooks denied. The model is told the hook's own reason; observers, the whole cause."""
    text = DENIED_BY_APPROVAL if outcome.approved is False else DENIED_BY_HOOK
    for_llm, whole = (
        text.format(reason) if reason.strip() else text.removesuffix(": {}")
        for reason in (outcome.reason_for_llm, outcome.reason)
    )
    return not_run(host, outcome.payload, for_llm, whole, outcome.result)


def not_run(host: Engine, call: ToolCall, text: str, reason: str, told: ToolResult | None = None) -> ToolResult:
    """The result of a call whose tool is not run: `text` for the model, `reason` for observers. No call goes without one."""
    host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": reason}, about=call)
    return told or ToolResult(for_llm=text, is_error=True)


# One model call, in rounds.


async def run_llm(
    host: Engine,
    request: LLMRequest | Mapping[str, Any],
    complete: Callable[[LLMRequest], Awaitable[Any]],
    rounds: Rounds | None = None,
    took: Took = ignore,
) -> LLMResponse:
    """before_llm, the model, after_llm; and round again with a hook's feedback, as often as the retry limit allows."""
    request = BEFORE_LLM.given(request)
    rounds = rounds or Rounds(host)
    trails = Trails(took)
    while True:
        outcome: Outcome[Any] = await host.before_llm(request)
        trails.take(outcome)
        if outcome.action == words.RESPOND:
            response: LLMResponse = outcome.result
            return traced(response, trails.all)
        if outcome.action != words.RETRY:
            raise_if_ended(outcome)
            outcome = await _complete(host, with_notes(outcome.payload, outcome.notes), complete)
            trails.take(outcome)
            if outcome.action != words.RETRY:
                raise_if_ended(outcome)
                return traced(outcome.payload, trails.all)
        rounds.spend(outcome.feedback, request)
        request = with_notes(request, outcome.notes)
        feedback = {"role": "user", "content": outcome.feedback}
        request = request.model_copy(update={"messages": [*request.messages, feedback]})


async def _complete(
    host: Engine, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Any]]
) -> Outcome[LLMResponse]:
    requested(host, request)
    said = await complete(request)
    if not isinstance(said, LLMResponse):
        said = LLMResponse(
            meta=request.meta,
            context=request.context,
            channel=request.channel,
            chat_id=request.chat_id,
            model=request.model,
            response=said,
            messages=request.messages,
        )
    else:
        said = _placed(said, request)
    after = await host.after_llm(said)
    answered(host, after.payload)
    return after


def _placed(said: LLMResponse, request: LLMRequest) -> LLMResponse:
    """The response, with what its maker left out taken from the request."""
    left_out = {
        name: getattr(request, name)
        for name in ("meta", "context", "channel", "chat_id", "model", "messages")
        if name not in said.model_fields_set
    }
    return said.model_copy(update=left_out) if left_out else said


def requested(host: Engine, request: LLMRequest) -> None:
    """The event that a request goes to the model."""
    options = request.options
    told = {
        "Model": request.model,
        "MessagesCount": len(request.messages),
        "ToolsCount": len(request.tools),
        "MaxTokens": options.get("max_tokens", 0),
        "Temperature": options.get("temperature", 0),
    }
    host.emit("llm_request", told, about=request)


def answered(host: Engine, said: LLMResponse) -> None:
    """The event that the model answered."""
    response = said.response
    told = {
        "ContentLen": len(str(response.get("content") or "")),
        "ToolCalls": len(response.get("tool_calls") or ()),
        "HasReasoning": bool(response.get("reasoning") or response.get("reasoning_content")),
    }
    host.emit("llm_response", told, about=said)


def with_notes(request: LLMRequest, notes: tuple[Notes, ...]) -> LLMRequest:
    """The request with what hooks asked to be added to it."""
    context = [note.additional_context for note in notes if note.additional_context]
    injected = [message for note in notes for message in note.inject_messages]
    if not context and not injected:
        return request
    prompt = "\n\n".join([*([request.system_prompt] if request.system_prompt else []), *context])
    return request.model_copy(
        update={"system_prompt": prompt or request.system_prompt, "messages": [*request.messages, *injected]}
    )


def as_tool_result(returned: Any) -> ToolResult:
    """What a tool returned, as a result for the model. The tool may keep what it returned, and change it."""
    if isinstance(returned, ToolResult):
        return apart(returned)  # type: ignore[no-any-return] # as it came
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult(for_llm=returned)
    if isinstance(returned, dict) and "for_llm" in returned:
        return ToolResult.model_validate(apart(returned))
    return ToolResult(for_llm=json.dumps(returned, ensure_ascii=False, default=str))


async def _called(execute: Callable[[ToolCall], Any], call: ToolCall) -> Any:
    returned = execute(call)
    return await returned if hasattr(returned, "__await__") else returned


def call_digest(call: ToolCall) -> bytes:
    """What approvers saw, and what runs, to compare."""
    return hashlib.sha256(encode(call.wire())).digest()


def _seen_digest(before: Outcome[ToolCall]) -> bytes | None:
    """Of the call that hooks were asked about last; None when the outcome has another one by now."""
    asked = before.asked
    if asked is not None and asked.payload is before.payload:
        return hashlib.sha256(asked.params()).digest()  # what is changed in it from here on is seen before it runs
    return call_digest(before.payload) if before.intact else None


def raise_if_ended(outcome: Outcome[Any]) -> None:
    """Raise what an outcome that ends a turn, or hands it back, means."""
    if outcome.action == words.PAUSE:
        raise PausedError(outcome)
    if outcome.action == words.ABORT_TURN:
        raise AbortTurnError(outcome)
    if outcome.action == words.HARD_ABORT:
        raise HardAbortError(outcome)


def started(host: Engine, call: ToolCall) -> None:
    """The event that a tool is about to run."""
    host.emit("tool_exec_start", {"Tool": call.tool, "Arguments": call.arguments}, about=call)


def ended(host: Engine, call: ToolCall, result: ToolResult, duration: int) -> None:
    """The event that a call is done."""
    payload = {
        "Tool": call.tool,
        "Duration": duration,
        "ForLLMLen": len(content_of(result)),
        "ForUserLen": len(result.for_user),
        "IsError": result.is_error,
        "Async": result.async_,
    }
    host.emit("tool_exec_end", payload, about=call)
