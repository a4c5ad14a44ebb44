"""A response of the model that arrives in pieces, and what of it the user may see before its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.conversation import text_of
from ..model.stages import AFTER_LLM

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..engine.engine import Engine
    from ..model.payloads import LLMResponse


class ResponseStream:
    """One response, made by `DecidedRequest.stream` when the model begins to answer.

    Give it each piece of the text with `add`, which returns the text that the user may see now. Give `conclude` the whole
    response. After that, `rest` is the text that the user has not seen yet.
    """

    def __init__(
        self, host: Engine, about: LLMResponse, conclude: Callable[[Any], Awaitable[LLMResponse | None]]
    ) -> None:
        """`about` is an empty response in the place of the one that arrives."""
        self._conclude = conclude
        self._out = 0
        self.unguarded = not host.may_ask(AFTER_LLM, about)
        """Whether no hook is asked about the response, so that all of it can be passed on as it comes."""
        self.rest = ""
        """The text that the user has not seen yet, when the response is concluded. It is empty if there is another round."""

    async def add(self, text: str) -> str:
        """Add a piece of the text. Returns the text that the user may see now, which may be empty."""
        if not self.unguarded:
            return ""
        self._out += len(text)
        return text

    async def conclude(self, answer: Any) -> LLMResponse | None:
        """after_llm, about the whole response. Returns and raises what `Host.conclude_llm` does. Sets `rest`."""
        response = await self._conclude(answer)
        if response is not None:
            self.rest = text_of(response.response)[self._out :]
        return response
