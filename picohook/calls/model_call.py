"""A model call: before_llm, the model, after_llm, and again with a hook's feedback.

`DecidedRequest.ask` is what comes before the model, and `conclude` what comes after it. `in_rounds` does the rest.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

from ..engine.asker import Asker
from ..model.conversation import text_of
from ..model.decisions import Outcome
from ..model.payloads import LLMRequest, LLMResponse
from ..model.stages import AFTER_LLM, BEFORE_LLM
from ..wire import words
from .abort import raise_if_ended
from .decided import Decided, Took
from .response_stream import ResponseStream
from .rounds import Rounds

Complete: TypeAlias = Callable[[LLMRequest], Any]
"""Asks the model. It is awaited, or yields pieces of text and then may yield the whole message."""
Show: TypeAlias = Callable[[str], Any]
"""Shows the user a piece of text. It may be async."""


class DecidedRequest(Decided):
    """A model call that hooks have decided on. The model must be sent `request`, or the call has its `response` already."""

    def __init__(self, host: Asker, request: LLMRequest | Mapping[str, Any], took: Took, rounds: Rounds) -> None:
        super().__init__(host, took)
        self.request = self._given = BEFORE_LLM.given(request)
        """The request after the hooks, with their additions."""
        self.response: LLMResponse | None = None
        """The response as hooks left it; None if the model has to be asked."""
        self._rounds = rounds

    async def ask(self) -> Self:
        """Asks before_llm, and again with a hook's feedback. Sets `request` or `response`. Returns this object."""
        self.operation = self.host.operation("model_call", self._given)
        with self.operation.work():
            while (outcome := await self.host.before_llm(self._given)).action == words.RETRY:
                self.take(outcome)
                self._again(outcome)
            self.take(outcome)
            raise_if_ended(outcome)
            if outcome.action == words.RESPOND:
                self.response = self.traced(outcome.result)
            else:
                self.request = outcome.payload.with_notes(outcome.notes)
                requested(self.host, self.request)
                self._open = True
        if self.response is not None:
            self.operation.ended(words.RESPOND, payload=self.response)
        return self

    def stream(self) -> ResponseStream:
        """Begin to read the model's response in pieces. Its `conclude` takes the place of this call's.

        Each model call has its own stream, also each round that a hook asks for.
        """
        self.require_open()
        return ResponseStream(self, _response({}, self.request), self.conclude)

    async def conclude(self, answer: Any, *, released: int = 0) -> LLMResponse | None:
        """after_llm, and before_llm again if a hook asks for another round. Sets and returns `response`. See `conclude_llm`.

        `released` is the number of characters that the user has seen already. Hooks cannot change these.
        """
        self.close()
        response = _response(answer, self.request)
        with self.operation.work():
            after = await self.host.after_llm(
                response.model_copy(update={"released": released}) if released else response
            )
            answered(self.host, after.payload)
            self.take(after)
            if after.action == words.RETRY:
                self._again(after)
            else:
                raise_if_ended(after)
                left = after.payload.model_copy(update={"released": None}) if released else after.payload
                self.response = self.traced(left)
        self.operation.ended(after.action, payload=after.payload)
        if self.response is None:
            await self.ask()
        return self.response

    def _again(self, outcome: Outcome[Any]) -> None:
        """Add the feedback to the request. Raises `RetryLimitError`."""
        self._rounds.spend(outcome.feedback, self._given)
        request = self._given.with_notes(outcome.notes)
        feedback = {"role": "user", "content": outcome.feedback}
        self._given = request.model_copy(update={"messages": [*request.messages, feedback]})


async def in_rounds(decided: DecidedRequest, complete: Complete, show: Show | None = None) -> LLMResponse:
    """Ask the model until hooks have left a response. With `show`, the model may answer in pieces, which the user sees.

    Raises `RetryLimitError`, `AbortTurnError`, `PausedError`, and any error of `complete`.
    """
    while decided.response is None:
        if show is None:
            with decided.operation.work():
                answer = await complete(decided.request)
            await decided.conclude(answer)
        else:
            await _streamed(decided, complete(decided.request), show)
    if show is not None and decided.outcomes[-1].stage != AFTER_LLM.name:
        await _show(show, text_of(decided.response.response))  # a hook answered in place of the model
    return decided.response


async def _streamed(decided: DecidedRequest, answer: Any, show: Show) -> None:
    """Make one call of a model that yields the pieces of its text, and at the end may yield its whole message."""
    stream = decided.stream()
    with decided.operation.work():
        if hasattr(answer, "__await__"):
            answer = await answer
        if hasattr(answer, "__aiter__"):
            answer = await _read(answer, stream, show)
    await stream.conclude(answer)
    await _show(show, stream.rest)


async def _read(answer: Any, stream: ResponseStream, show: Show) -> Any:
    """Show the pieces of an answer as they come. Returns the whole message."""
    pieces, whole = [], None
    try:
        async for piece in answer:
            if isinstance(piece, str):
                pieces.append(piece)
                await _show(show, await stream.add(piece))
            else:
                whole = piece
    finally:
        if hasattr(answer, "aclose"):
            await answer.aclose()
    return {"content": "".join(pieces)} if whole is None else whole


async def _show(show: Show, text: str) -> None:
    if text and hasattr(shown := show(text), "__await__"):
        await shown


def _response(answer: Any, request: LLMRequest) -> LLMResponse:
    """The model's answer as the response to this request, whose place it takes unless it has its own."""
    response = answer if isinstance(answer, LLMResponse) else LLMResponse(response=answer)
    left_out = {
        name: getattr(request, name)
        for name in ("meta", "context", "channel", "chat_id", "model", "messages")
        if name not in response.model_fields_set
    }
    return response.model_copy(update=left_out) if left_out else response


def requested(host: Asker, request: LLMRequest) -> None:
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


def answered(host: Asker, response: LLMResponse) -> None:
    """Emit the event that the model answered."""
    message = response.response
    event = {
        "ContentLen": len(str(message.get("content") or "")),
        "ToolCalls": len(message.get("tool_calls") or ()),
        "HasReasoning": bool(message.get("reasoning") or message.get("reasoning_content")),
    }
    host.emit("llm_response", event, about=response)
