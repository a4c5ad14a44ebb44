"""A response of the model that arrives in pieces, and how much of it the user may see before its end."""

import time
from collections.abc import Awaitable, Callable
from functools import reduce
from os.path import commonprefix
from typing import Any

from ..errors import PicohookError
from ..model.conversation import text_of
from ..model.payloads import LLMResponse
from ..model.spec import Parts
from ..model.stages import AFTER_LLM
from ..wire import words
from .abort import raise_if_ended
from .decided import Decided

Conclude = Callable[..., Awaitable[LLMResponse | None]]


class ResponseStream:
    """One response, made by `DecidedRequest.stream` when the model begins to answer.

    Give it each piece of the text with `add`, which returns the text that the user may see now. Give `conclude` the whole
    response. After that, `rest` is the text that the user has not seen yet.
    """

    def __init__(self, decided: Decided, about: LLMResponse, conclude: Conclude) -> None:
        """`about` is an empty response in the place of the one that arrives."""
        self._decided = decided
        self._about = about
        self._conclude = conclude
        self._text = ""
        self._asked = 0
        self._last = -float("inf")
        self._held = False
        self._edited = False
        self.released = 0
        """The number of characters that `add` has returned."""
        self.unguarded = not decided.host.may_ask(AFTER_LLM, about)
        """Whether no hook is asked about the response, so that all of it can be passed on as it comes."""
        self.rest = ""
        """The text that the user has not seen yet, when the response is concluded. It is empty if there is another round."""

    async def add(self, text: str) -> str:
        """Add a piece of the text. Returns the text that the user may see now, which may be empty.

        Hooks that ask for parts are asked about the text so far, when enough of it is new. Raises `AbortTurnError` or
        `HardAbortError` if one of them ends the turn.
        """
        if self.unguarded:
            self.released += len(text)
            return text
        self._text += text
        parts = self._parts
        now = time.monotonic()
        if (
            parts is None
            or len(self._text) - self._asked < parts.characters
            or len(self._text) - self.released <= parts.window
            or now - self._last < parts.interval
        ):
            return ""
        agreed = await self._ask(parts.window)
        self._last = time.monotonic()
        out = max(self.released, min(agreed, len(self._text) - parts.window))
        shown = self._text[self.released : out]
        self.released = out
        return shown

    async def conclude(self, answer: Any) -> LLMResponse | None:
        """Asks after_llm about the whole response. Returns and raises as `Host.conclude_llm` does. Sets `rest`.

        Raises `PicohookError` if the response does not begin with the text that the user has seen.
        """
        message = answer.response if isinstance(answer, LLMResponse) else answer
        released = self.released
        if self.unguarded:
            released = len(text_of(message))
        else:
            if self._edited:
                message = {**message, "content": self._text}
                answer = answer.model_copy(update={"response": message}) if isinstance(answer, LLMResponse) else message
            if text_of(message)[:released] != self._text[:released]:
                raise PicohookError("the model's response does not begin with the text that it streamed")
        response = await self._conclude(answer, released=released)
        if response is not None:
            self.rest = text_of(response.response)[self.released :]
        return response

    @property
    def _parts(self) -> Parts | None:
        """The settings by which hooks are asked about parts; None if nothing is released before the end."""
        wanted = [hook.parts for hook in self._decided.host.may_ask(AFTER_LLM, self._about)]
        settings = [parts for parts in wanted if parts is not None]
        if self._held or len(settings) < len(wanted):
            return None
        return reduce(Parts.along_with, settings) if settings else Parts()

    async def _ask(self, window: int) -> int:
        """Asks after_llm about the text so far. Returns the number of its characters that hooks agree to.

        An edit stays if it leaves the window as it is. In the window, what a hook changed may not be complete yet: a secret
        may continue. Then hooks are asked again about the text without the edit, and only the text before the edit is agreed.
        """
        part = {"response": {"content": self._text}, "partial": True, "released": self.released or None}
        outcome = await self._decided.host.after_llm(self._about.model_copy(update={**part, "messages": None}))
        if outcome.action != words.CONTINUE or any(entry.error for entry in outcome.trail):
            self._decided.take(outcome)
        if outcome.action in {words.ABORT_TURN, words.HARD_ABORT}:
            self._decided.close()
        raise_if_ended(outcome)
        if outcome.action == words.RETRY:  # nothing is out: it is asked again at the end
            self._held = True
            return 0
        text = text_of(outcome.payload.response)
        if text != self._text and text.endswith(self._text[max(0, len(self._text) - window) :]):
            self._text = text
            self._edited = True
        self._asked = len(self._text)
        return len(text if text == self._text else commonprefix([text, self._text]))  # noqa: RUF071 - no paths
