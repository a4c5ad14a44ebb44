"""Streams the response of a model of the OpenAI Agents SDK as hooks let it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import PicohookError
from . import extra
from .openai_messages import answered, nothing, replayed, shown_output

with extra("openai-agents"):
    from openai.types.responses import ResponseCompletedEvent, ResponseOutputItemDoneEvent, ResponseTextDeltaEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agents.items import TResponseOutputItem, TResponseStreamEvent

    from .. import ResponseStream

_BEGINS = frozenset({"response.created", "response.in_progress"})
"""The events with which a response begins. They have nothing of it yet."""


class StreamedOutput:
    """The events of one response: those that can be passed on, and those that wait for its end."""

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._held: list[TResponseStreamEvent] = []
        self._items: list[TResponseOutputItem] = []
        self._completed: ResponseCompletedEvent | None = None
        self._last: ResponseTextDeltaEvent | None = None
        """The last piece of text that hooks let pass."""

    async def passed(self, event: TResponseStreamEvent) -> Iterable[TResponseStreamEvent]:
        """Take an event of the model. Returns the events to pass on now."""
        if isinstance(event, ResponseOutputItemDoneEvent):
            self._items.append(event.item)
        if isinstance(event, ResponseCompletedEvent):
            self._completed = event
        elif self._stream.unguarded:
            return (event,)
        elif isinstance(event, ResponseTextDeltaEvent):
            text = await self._stream.add(event.delta)
            if text:
                begun = [] if self._last else [event for event in self._held if event.type in _BEGINS]
                self._last = _with_text(event, text)
                return (*begun, self._last)
        self._held.append(event)
        return ()

    async def conclude(self) -> None:
        """Ask hooks about the whole response. Raises `PicohookError` if the stream ended without one."""
        if self._completed is None:
            raise PicohookError("the model's stream ended without a response")
        await self._stream.conclude(shown_output(self._output))

    def rest(self, answer: Mapping[str, Any]) -> list[TResponseStreamEvent]:
        """Returns the events of the rest of the response, as hooks left it."""
        assert self._completed is not None
        output = answered(self._output, answer)
        held = self._held if output == self._output else replayed(self._completed.response, output)
        if self._last is None and not self._stream.unguarded:
            return held
        begun = [_with_text(self._last, self._stream.rest)] if self._last and self._stream.rest else []
        return [
            *begun,
            *(event for event in held if not isinstance(event, ResponseTextDeltaEvent) and event.type not in _BEGINS),
        ]

    @property
    def _output(self) -> list[TResponseOutputItem]:
        assert self._completed is not None
        return self._completed.response.output or self._items  # some servers leave the response itself empty


def of_hooks(answer: Mapping[str, Any]) -> list[TResponseStreamEvent]:
    """Returns the events of a response that hooks gave in place of the model."""
    return replayed(nothing(), answered([], answer))


def _with_text(event: ResponseTextDeltaEvent, text: str) -> ResponseTextDeltaEvent:
    return event.model_copy(update={"delta": text, "logprobs": []})
