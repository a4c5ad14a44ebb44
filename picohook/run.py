"""A whole tool call and a whole model call, with everything that hooks have a say in."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, NoReturn

from . import wire
from .errors import AbortTurnError, HardAbortError, PausedError, RetryLimitError
from .models import LLMRequest, LLMResponse, ToolCall, ToolResult, ToolReturn
from .protocol.messages import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .decisions import Notes, Outcome
    from .host import Host

DENIED_BY_HOOK = "Tool execution denied by hook: {}"
DENIED_BY_APPROVAL = "Tool execution denied by approval hook: {}"


async def run_tool(host: Host, call: ToolCall, execute: Callable[[ToolCall], Any]) -> ToolResult:
    """before_tool, approve_tool, the tool, after_tool. What approvers saw is what runs, or it is denied."""
    before = await host.before_tool(call)
    call = before.payload
    if before.action == wire.RESPOND:
        _started(host, call)
        _ended(host, call, before.result, 0)
        return before.result  # type: ignore[no-any-return]
    if before.action == wire.DENY:
        text = DENIED_BY_APPROVAL if before.approved is False else DENIED_BY_HOOK
        return _skipped(host, call, text, before.reason)
    _raise_if_ended(before)
    seen = _digest(call)
    approval = await host.approve_tool(call)
    if not approval.approved:
        return _skipped(host, call, DENIED_BY_APPROVAL, approval.reason)
    if _digest(call) != seen:
        return _skipped(host, call, DENIED_BY_APPROVAL, "the call was changed after it was approved")
    _started(host, call)
    begun = time.monotonic_ns()
    error: str | None = None
    try:
        result = as_tool_result(await _called(execute, call))
    except Exception as failure:  # noqa: BLE001 - a tool that fails is a result that the model is told
        error = f"{type(failure).__name__}: {failure}"
        result = ToolResult(for_llm=error, is_error=True)
    duration = time.monotonic_ns() - begun
    returned = ToolReturn(**call.__dict__, result=result, duration=duration, error=error)
    after = await host.after_tool(returned)
    _ended(host, call, after.payload.result, duration)
    _raise_if_ended(after)
    return after.payload.result


async def run_llm(host: Host, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Any]]) -> LLMResponse:
    """before_llm, the model, after_llm; and round again with a hook's feedback, as often as the retry limit allows."""
    for attempt in range(1, host.retry_limit + 2):
        before = await host.before_llm(request)
        if before.action == wire.RESPOND:
            return before.result  # type: ignore[no-any-return]
        feedback = before.feedback
        if before.action != wire.RETRY:
            _raise_if_ended(before)
            after = await _complete(host, with_notes(before.payload, before.notes), complete)
            if after.action != wire.RETRY:
                _raise_if_ended(after)
                return after.payload
            feedback = after.feedback
        if attempt <= host.retry_limit:
            host.emit("llm_retry", {"Attempt": attempt, "MaxRetries": host.retry_limit, "Reason": feedback,
                                    "Error": "", "Backoff": 0}, meta=request.meta)  # fmt: skip
        request = request.model_copy(update={"messages": [*request.messages, {"role": "user", "content": feedback}]})
    raise RetryLimitError(f"hooks asked for another round more than {host.retry_limit} times; the last one: {feedback}")


async def _complete(
    host: Host, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Any]]
) -> Outcome[LLMResponse]:
    options = request.options
    host.emit(
        "llm_request",
        {
            "Model": request.model,
            "MessagesCount": len(request.messages),
            "ToolsCount": len(request.tools),
            "MaxTokens": options.get("max_tokens", 0),
            "Temperature": options.get("temperature", 0),
        },
        meta=request.meta,
    )
    said = await complete(request)
    if not isinstance(said, LLMResponse):
        said = LLMResponse(
            meta=request.meta,
            context=request.context,
            channel=request.channel,
            chat_id=request.chat_id,
            model=request.model,
            response=said,
        )
    after = await host.after_llm(said)
    response = after.payload.response
    host.emit(
        "llm_response",
        {
            "ContentLen": len(str(response.get("content") or "")),
            "ToolCalls": len(response.get("tool_calls") or ()),
            "HasReasoning": bool(response.get("reasoning") or response.get("reasoning_content")),
        },
        meta=request.meta,
    )
    return after


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
    """What a tool returned, as a result for the model."""
    if isinstance(returned, ToolResult):
        return returned
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult(for_llm=returned)
    if isinstance(returned, dict) and "for_llm" in returned:
        return ToolResult.model_validate(returned)
    return ToolResult(for_llm=json.dumps(returned, ensure_ascii=False, default=str))


async def _called(execute: Callable[[ToolCall], Any], call: ToolCall) -> Any:
    returned = execute(call)
    return await returned if hasattr(returned, "__await__") else returned


def _digest(call: ToolCall) -> bytes:
    return hashlib.sha256(encode(call.wire())).digest()


def _raise_if_ended(outcome: Outcome[Any]) -> None:
    if outcome.action in {wire.ABORT_TURN, wire.HARD_ABORT, wire.PAUSE}:
        raise_ended(outcome)


def raise_ended(outcome: Outcome[Any]) -> NoReturn:
    """Raise what an outcome that ends a turn means."""
    if outcome.action == wire.PAUSE:
        raise PausedError(outcome)
    raise (HardAbortError if outcome.action == wire.HARD_ABORT else AbortTurnError)(outcome)


def _skipped(host: Host, call: ToolCall, text: str, reason: str) -> ToolResult:
    host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": reason}, meta=call.meta)
    return ToolResult(for_llm=text.format(reason), is_error=True)


def _started(host: Host, call: ToolCall) -> None:
    host.emit("tool_exec_start", {"Tool": call.tool, "Arguments": call.arguments}, meta=call.meta)


def _ended(host: Host, call: ToolCall, result: ToolResult, duration: int) -> None:
    payload = {
        "Tool": call.tool,
        "Duration": duration,
        "ForLLMLen": len(result.for_llm),
        "ForUserLen": len(result.for_user),
        "IsError": result.is_error,
        "Async": result.async_,
    }
    host.emit("tool_exec_end", payload, meta=call.meta)
