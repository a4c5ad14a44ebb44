"""The stream of a guarded model of Pydantic AI."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from . import extra

with extra("pydantic-ai"):
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
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
        self._name = model_name
        self._begun = datetime.now(UTC)
        self._inner: StreamedResponse | None = None
        self._types = False
        """Whether the user has seen text that hooks let pass."""
        self._events = events(self)

    def read(self, inner: StreamedResponse) -> None:
        """Note that the model's own stream is read."""
        self._inner, self.canonical_system = inner, inner.canonical_system

    # The events of parts: the framework adds those of their ends and of the final result.

    def passed(self, event: ModelResponseStreamEvent) -> Iterator[ModelResponseStreamEvent]:
        """Yields the model's own event, which the user may see."""
        if isinstance(event, PartStartEvent | PartDeltaEvent):
            self._parts_manager.apply_event(event)
            yield event

    def show(self, text: str) -> Iterator[ModelResponseStreamEvent]:
        """Yields the events of a piece of text that the user may see, unless it is empty."""
        if text:
            self._types = True
            yield from self._parts_manager.handle_text_delta(vendor_part_id="text", content=text)

    def rest(self, response: ModelResponse, text: str) -> Iterator[ModelResponseStreamEvent]:
        """Yields the events of the rest of a response: this text, and the parts that the user has not seen."""
        seen = TextPart if self._types else ()
        yield from self.show(text) if self._types else ()
        for part in response.parts:
            if not isinstance(part, seen):
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        return self._events

    async def aclose(self) -> None:
        """Close the model's own stream, if it was not read to its end."""
        await self._events.aclose()

    async def close_stream(self) -> None:
        if self._inner is not None:
            await self._inner.cancel()

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        return super().get_stream_cancel_errors() if self._inner is None else self._inner.get_stream_cancel_errors()

    def get(self) -> ModelResponse:
        return super().get() if self.response is None else self.response

    @property
    def usage(self) -> RequestUsage:
        if self.response is not None:
            return self.response.usage
        return RequestUsage() if self._inner is None else self._inner.usage

    model_name = property(lambda self: getattr(self._inner, "model_name", self._name))
    provider_name = property(lambda self: getattr(self._inner, "provider_name", None))
    provider_url = property(lambda self: getattr(self._inner, "provider_url", None))
    timestamp = property(lambda self: getattr(self._inner, "timestamp", self._begun))


def text_in(event: ModelResponseStreamEvent) -> str:
    """Returns the piece of text in an event; empty if it has none."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
