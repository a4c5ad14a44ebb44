"""A session with a user: it makes turns, and resumes paused ones."""

import uuid

from ..engine.resumed import Resumed
from ..errors import PicohookError
from ..model.decisions import Decision
from ..model.payloads import Meta
from ..model.stages import STAGES
from .base_session import BaseSession
from .paused import PausedTurn
from .turn import Turn

TRACE_PATH = "runTurn"
"""TracePath of all of a turn, as PicoClaw documents it. (Its host sends this as Source, and Source as TracePath.)"""


class Session(BaseSession):
    """A user's session, made by `Host.session`. Its block begins with session_start and ends with session_end.

    The end of the block waits for the observers of session_end.

    `hooks` are asked and told in this session alone: in its turns, and by its `host`.
    """

    kind_of_turn = Turn
    """The class of the turns that `turn` makes."""

    def turn(
        self,
        user_message: str = "",
        *,
        parent: Turn | None = None,
        agent_id: str | None = None,
        label: str = "",
        media_count: int = 0,
        turn_id: str | None = None,
    ) -> Turn:
        """Make a new turn. With `parent` it is a sub-turn: it begins with no conversation, and its result goes to its parent.

        Raises `HardAbortError` if a hook has ended the session, as Blade's `abort` does.
        """
        self.require_open()
        meta = Meta(
            agent_id=self.agent_id if agent_id is None else agent_id,
            turn_id=turn_id or uuid.uuid4().hex,
            parent_turn_id=parent.meta.turn_id if parent else "",
            session_key=self.id,
            trace_path=TRACE_PATH,
            source="turn",
        )
        return self.kind_of_turn(self, meta, user_message, parent=parent, label=label, media_count=media_count)

    def resume(self, paused: PausedTurn, decision: Decision, *, parent: Turn | None = None) -> Turn:
        """Resume a paused turn, which may come from another process. The decision is the answer for the hook that paused.

        Entering the turn uses up the pause, even if it fails later. It raises `PicohookError` for a pause that was used before,
        or whose life is over.

        Raises `PicohookError` for a turn of another session, for a decision that the stage of the pause does not allow, and if
        the host has no store of used pauses. Raises `HardAbortError` as `turn` does.
        """
        self.require_open()
        if self.host.settings.used_pauses is None:
            raise PicohookError(
                "this host resumes no turn, because it has no store of used pauses: Host(used_pauses=...)"
            )
        if paused.meta.session_key != self.id:
            raise PicohookError(
                f"the paused turn belongs to session {paused.meta.session_key!r}, and this is {self.id!r}"
            )
        resumed = Resumed(paused.hook, decision)
        resumed.require_allowed(STAGES[paused.stage])
        paused = paused.model_copy(deep=True)  # the turn changes it
        return Turn(self, paused.meta, paused.user_message, parent=parent, resumed=(paused, resumed))
