"""A hook ends a turn: it pauses it, aborts it or, with a hard abort, ends the agent's loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire import words

if TYPE_CHECKING:
    from ..model.decisions import Outcome
    from ..model.payloads import ToolResult
    from ..sessions.paused import PausedTurn


class PausedError(PicohookError):
    """A hook paused the turn: the embedder decides how it continues."""

    def __init__(self, outcome: Outcome[Any], paused: PausedTurn | None = None) -> None:
        super().__init__(outcome.reason or "paused by hook")
        self.reason = outcome.reason
        self.outcome = outcome
        self.paused = paused
        """The turn to keep in order to resume it; None outside of a turn."""


class AbortTurnError(PicohookError):
    """A hook ended this turn."""

    def __init__(self, outcome: Outcome[Any]) -> None:
        super().__init__(outcome.reason or "aborted by hook")
        self.reason = outcome.reason
        self.outcome = outcome
        self.results: tuple[ToolResult, ...] = ()
        """The results of the batch of tool calls that it ended, one for every call."""


class HardAbortError(AbortTurnError):
    """A hook ended the agent loop."""


def raise_if_ended(outcome: Outcome[Any]) -> None:
    """Raise `PausedError`, `AbortTurnError` or `HardAbortError` if the outcome is a pause or an abort."""
    if outcome.action == words.PAUSE:
        raise PausedError(outcome)
    if outcome.action == words.ABORT_TURN:
        raise AbortTurnError(outcome)
    if outcome.action == words.HARD_ABORT:
        raise HardAbortError(outcome)


def hard_abort_in(failure: BaseException) -> HardAbortError | None:
    """The hard abort in an error or in a group of errors, if there is one."""
    if isinstance(failure, BaseExceptionGroup):
        return next(filter(None, map(hard_abort_in, failure.exceptions)), None)
    return failure if isinstance(failure, HardAbortError) else None
