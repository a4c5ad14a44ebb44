"""The stream of a guarded model of Pydantic AI."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import extra

with extra("pydantic-ai"):
    from pydantic_ai.messages import (
        FinalResultEvent,
        ModelResponse,
        PartDeltaEvent,
        PartEndEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
    )
    from pydantic_ai.models import CompletedStreamedResponse, StreamedResponse
    from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestParameters


class GuardedStream(StreamedResponse):
    """A stream whose events a function makes. It shows no more of the response than those events."""

    def __init__(
        self,
        model_name: str,
        parameters: ModelRequestParameters,
        events: Callable[[GuardedStream], AsyncGenerator[ModelResponseStreamEvent]],
    ) -> None:
        super().__init__(parameters)
        self.response: ModelResponse | None = None
        """The whole response, when hooks have left it."""
        self._nothing = ModelResponse(parts=[], model_name=model_name, state="incomplete")
        self._inner: StreamedResponse | None = None
        self._shown: StreamedResponse | None = None
        self._pieces: list[str] = []
        """The text that the user has seen, where it comes in pieces that hooks let pass."""
        self._events = events(self)

    def read(self, inner: StreamedResponse, *, shown: bool) -> None:
        """Note that the model's own stream is read. With `shown`, its response so far is this one's."""
        self._inner = inner
        self._shown = inner if shown else None

    def show(self, text: str) -> list[ModelResponseStreamEvent]:
        """Returns the events of a piece of text that the user may see. The text of a response is its first part."""
        self._pieces.append(text)
        if len(self._pieces) > 1:
            return [PartDeltaEvent(index=0, delta=TextPartDelta(content_delta=text))]
        events: list[ModelResponseStreamEvent] = [PartStartEvent(index=0, part=TextPart(text))]
        if self.model_request_parameters.allow_text_output:
            events.append(FinalResultEvent(tool_name=None, tool_call_id=None))
        return events

    async def rest(self, response: ModelResponse, text: str) -> AsyncIterator[ModelResponseStreamEvent]:
        """Yields the events of the rest of a response: this text, and the parts that are not text."""
        if not self._pieces:
            async for event in self._replayed(response):
                yield event
            return
        for event in self.show(text) if text else ():
            yield event
        yield PartEndEvent(index=0, part=TextPart("".join(self._pieces)))
        parts = [part for part in response.parts if not isinstance(part, TextPart)]
        async for event in self._replayed(replace(response, parts=parts)):
            if not isinstance(event, FinalResultEvent):
                yield replace(event, index=event.index + 1)
            elif not self.model_request_parameters.allow_text_output:
                yield event

    def _replayed(self, response: ModelResponse) -> CompletedStreamedResponse:
        parameters = self.model_request_parameters
        return CompletedStreamedResponse(response, model_request_parameters=parameters, replay_events=True)

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        return self._events

    _get_event_iterator = __aiter__

    async def aclose(self) -> None:
        """Close the model's own stream, if it was not read to its end."""
        await self._events.aclose()

    async def close_stream(self) -> None:
        if self._inner is not None:
            await self._inner.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        return super().get_stream_cancel_errors() if self._inner is None else self._inner.get_stream_cancel_errors()

    def get(self) -> ModelResponse:
        if self.response is not None:
            return self.response
        if self._shown is not None:
            return self._shown.get()
        parts = [TextPart("".join(self._pieces))] if self._pieces else []
        return replace(self._nothing, parts=parts, usage=self.usage)

    @property
    def usage(self) -> RequestUsage:
        if self.response is not None:
            return self.response.usage
        return RequestUsage() if self._inner is None else self._inner.usage

    model_name = property(lambda self: self.get().model_name or "")
    provider_name = property(lambda self: self.get().provider_name)
    provider_url = property(lambda self: self.get().provider_url)
    timestamp = property(lambda self: self.get().timestamp)


def text_in(event: ModelResponseStreamEvent) -> str:
    """Returns the piece of text in an event; empty if it has none."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
