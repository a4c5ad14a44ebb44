"""The stream of a guarded model of Pydantic AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import extra

with extra("pydantic-ai"):
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import CompletedStreamedResponse, StreamedResponse
    from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from datetime import datetime

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
        self._events = events(self)

    def read(self, inner: StreamedResponse, *, shown: bool) -> None:
        """Note that the model's own stream is read. With `shown`, its response so far is this one's."""
        self._inner = inner
        self._shown = inner if shown else None

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        return self._events

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        async for event in self._events:
            yield event

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
        return self._nothing if self._shown is None else self._shown.get()

    @property
    def usage(self) -> RequestUsage:
        if self.response is not None:
            return self.response.usage
        return RequestUsage() if self._inner is None else self._inner.usage

    @property
    def model_name(self) -> str:
        return self.get().model_name or ""

    @property
    def provider_name(self) -> str | None:
        return self.get().provider_name

    @property
    def provider_url(self) -> str | None:
        return self.get().provider_url

    @property
    def timestamp(self) -> datetime:
        return self.get().timestamp


def replayed(response: ModelResponse, parameters: ModelRequestParameters) -> CompletedStreamedResponse:
    """Return the stream of a whole response."""
    return CompletedStreamedResponse(response, model_request_parameters=parameters, replay_events=True)
