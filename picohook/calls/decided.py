"""The base of `DecidedCall` and `DecidedRequest`: what hooks decided before a call, to be concluded once."""

from collections.abc import Callable
from typing import Any, TypeVar

from ..engine.asker import Asker
from ..engine.listener import NO_OPERATION
from ..errors import PicohookError
from ..model.decisions import Outcome
from ..model.payloads import LLMResponse, ToolResult, traced

Took = Callable[[Outcome[Any]], None]

R = TypeVar("R", "ToolResult", "LLMResponse")


class Decided:
    """Holds the outcomes of a call's stages, and passes each on to `took`."""

    def __init__(self, host: Asker, took: Took) -> None:
        self.host = host
        """The host whose hooks decided."""
        self.outcomes: list[Outcome[Any]] = []
        """The outcome of each stage so far."""
        self.operation = NO_OPERATION
        """The call, as listeners see it. Make it `current` while the tool or the model runs."""
        self._took = took
        self._open = False
        """Whether the call is being made: it can be concluded."""

    def take(self, outcome: Outcome[Any]) -> None:
        self.outcomes.append(outcome)
        self._took(outcome)

    def require_open(self) -> None:
        """Raise `PicohookError` if the call was not to be made, or is concluded already."""
        if not self._open:
            raise PicohookError("this call cannot be concluded: it was not to be made, or is concluded already")

    def close(self) -> None:
        """Note that the call was made. Raises as `require_open` does."""
        self.require_open()
        self._open = False

    def traced(self, result: R) -> R:
        """A copy of the result with the trails of all stages so far."""
        return traced(result, (outcome.stage_trail for outcome in self.outcomes))
