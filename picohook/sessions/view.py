"""A session's view of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..calls.caller import Caller
from ..wire import words
from .session_hooks import SessionHooks

if TYPE_CHECKING:
    from ..model.decisions import Outcome


class SessionView(Caller):
    """The host as one session sees it: it also asks and tells the session's own hooks, after all others.

    No hook can be mounted on it, and it cannot be closed: it belongs to the session.
    """

    ended_by: Outcome[Any] | None = None
    """The hard abort that ended the session."""

    def add_hooks(self, session_id: str) -> SessionHooks:
        """Give this view an arrangement of its own, to which the session's hooks are added. Returns the arrangement."""
        self._arrangement = hooks = SessionHooks(self._mounted, session_id)
        return hooks

    def note_hard_abort(self, outcome: Outcome[Any]) -> None:
        """Set `ended_by` if this is a hard abort by a hook whose hard aborts end the session."""
        if outcome.action == words.HARD_ABORT:
            mounted = self._arrangement.by_name.get(outcome.hook)
            if mounted is not None and mounted.hook.ends_sessions:
                self.ended_by = outcome
