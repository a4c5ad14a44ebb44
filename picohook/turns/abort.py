"""Aborts: outcomes that end a turn, or with a hard abort the agent's loop, as the errors that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..wire import words
from .errors import AbortTurnError, HardAbortError, PausedError

if TYPE_CHECKING:
    from ..model.decisions import Outcome


def raise_if_ended(outcome: Outcome[Any]) -> None:
    """Raise `PausedError`, `AbortTurnError` or `HardAbortError` for an outcome that says so."""
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
