"""The errors by which hooks stop a turn. They belong to the tree in `picohook.errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PicohookError

if TYPE_CHECKING:
    from ..model.decisions import Outcome
    from ..model.payloads import ToolResult
    from .paused import PausedTurn


class AbortTurnError(PicohookError):
    """A hook ended this turn."""

    def __init__(self, outcome: Outcome[Any]) -> None:
        super().__init__(outcome.reason or "aborted by hook")
        self.reason = outcome.reason
        self.outcome = outcome
        self.results: tuple[ToolResult, ...] = ()
        """Of the batch of tool calls that it ended: every call has one."""


class HardAbortError(AbortTurnError):
    """A hook ended the agent loop."""


class PausedError(PicohookError):
    """A hook paused the turn: the embedder decides how it goes on."""

    def __init__(self, outcome: Outcome[Any], paused: PausedTurn | None = None) -> None:
        super().__init__(outcome.reason or "paused by hook")
        self.reason = outcome.reason
        self.outcome = outcome
        self.paused = paused
        """What to keep in order to go on; None outside of a turn."""


class RetryLimitError(PicohookError):
    """Hooks asked for another round more often than the retry limit allows."""
