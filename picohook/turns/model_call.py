"""A model call: before_llm, the model, after_llm, and again with a hook's feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.payloads import LLMRequest, LLMResponse, traced
from ..model.stages import BEFORE_LLM
from ..wire import words
from .abort import raise_if_ended
from .rounds import Rounds
from .tool_call import Trails, ignore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..engine.engine import Engine
    from ..model.decisions import Outcome
    from ..model.trail import Notes
    from .tool_call import Took


async def run_llm(
    host: Engine,
    request: LLMRequest | Mapping[str, Any],
    complete: Callable[[LLMRequest], Awaitable[Any]],
    rounds: Rounds | None = None,
    took: Took = ignore,
) -> LLMResponse:
    """before_llm, the model, after_llm, and again with a hook's feedback, as often as the retry limit allows.

    Raises `RetryLimitError`, `AbortTurnError`, `PausedError`, and any error of `complete`.
    """
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
    response = await complete(request)
    if not isinstance(response, LLMResponse):
        response = LLMResponse(
            meta=request.meta,
            context=request.context,
            channel=request.channel,
            chat_id=request.chat_id,
            model=request.model,
            response=response,
            messages=request.messages,
        )
    else:
        response = _placed(response, request)
    after = await host.after_llm(response)
    answered(host, after.payload)
    return after


def _placed(response: LLMResponse, request: LLMRequest) -> LLMResponse:
    """The response, with its missing fields taken from the request."""
    left_out = {
        name: getattr(request, name)
        for name in ("meta", "context", "channel", "chat_id", "model", "messages")
        if name not in response.model_fields_set
    }
    return response.model_copy(update=left_out) if left_out else response


def requested(host: Engine, request: LLMRequest) -> None:
    """Emit the event that a request goes to the model."""
    options = request.options
    event = {
        "Model": request.model,
        "MessagesCount": len(request.messages),
        "ToolsCount": len(request.tools),
        "MaxTokens": options.get("max_tokens", 0),
        "Temperature": options.get("temperature", 0),
    }
    host.emit("llm_request", event, about=request)


def answered(host: Engine, response: LLMResponse) -> None:
    """Emit the event that the model answered."""
    message = response.response
    event = {
        "ContentLen": len(str(message.get("content") or "")),
        "ToolCalls": len(message.get("tool_calls") or ()),
        "HasReasoning": bool(message.get("reasoning") or message.get("reasoning_content")),
    }
    host.emit("llm_response", event, about=response)


def with_notes(request: LLMRequest, notes: tuple[Notes, ...]) -> LLMRequest:
    """The request with the context and the messages that hooks add to it."""
    context = [note.additional_context for note in notes if note.additional_context]
    injected = [message for note in notes for message in note.inject_messages]
    if not context and not injected:
        return request
    prompt = "\n\n".join([*([request.system_prompt] if request.system_prompt else []), *context])
    return request.model_copy(
        update={"system_prompt": prompt or request.system_prompt, "messages": [*request.messages, *injected]}
    )
