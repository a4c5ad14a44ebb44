"""A session with a user: what its turns have in common."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import anyio

from .decisions import Approve, Pause
from .errors import PicohookError
from .models import Meta, Payload
from .stages import STAGES
from .turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from .decisions import Decision
    from .delivery import Delivery
    from .host import Host
    from .paused import PausedTurn


class Session:
    """Made by `Host.session`. Its block begins with session_start and ends with session_end, which observers may act on."""

    kind_of_turn = Turn
    """What `turn` makes."""

    def __init__(
        self,
        host: Host,
        session_id: str,
        *,
        agent_id: str = "",
        channel: str = "",
        chat_id: str = "",
        context: dict[str, Any] | None = None,
        deliver: Callable[[Delivery], Any] | None = None,
        show: Callable[[str], Any] | None = None,
    ) -> None:
        self.host = host
        self.id = session_id
        self.agent_id = agent_id
        self.channel = channel
        self.chat_id = chat_id
        self.context = context
        """What is known of where the user speaks, as `inbound`, `route` and `scope`: hooks see it at every stage."""
        self.deliver = deliver
        """Brings a result's media and text to the user; what it raises is told to the model."""
        self.show = show
        """Shows the user a hook's `system_message`. It is called, and not waited for."""
        self.messages: list[dict[str, Any]] = []
        """The conversation, as the last turn left it and the next one finds it."""

    @property
    def meta(self) -> Meta:
        """Of what belongs to the session, and to no turn."""
        return Meta(agent_id=self.agent_id, session_key=self.id, source="session")

    def about(self, meta: Meta) -> Payload:
        """What has this meta and belongs to this session, for its events."""
        return Payload(meta=meta, context=self.context, channel=self.channel, chat_id=self.chat_id)

    async def __aenter__(self) -> Self:
        self.host.emit("session_start", self._told, about=self.about(self.meta))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self.host.emit_and_wait("session_end", self._told, about=self.about(self.meta))
        finally:
            self.host.forget(self.id)

    @property
    def _told(self) -> dict[str, Any]:
        return {"SessionKey": self.id, "Messages": [*self.messages]}

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
        """A new turn; with `parent`, a sub-turn: it begins with no conversation, and its result goes to its parent."""
        meta = Meta(
            agent_id=self.agent_id if agent_id is None else agent_id,
            turn_id=turn_id or uuid.uuid4().hex,
            parent_turn_id=parent.meta.turn_id if parent else "",
            session_key=self.id,
            source="turn",
        )
        return self.kind_of_turn(self, meta, user_message, parent=parent, label=label, media_count=media_count)

    def resume(self, paused: PausedTurn, decision: Decision, *, parent: Turn | None = None) -> Turn:
        """A paused turn, going on: the decision answers for the hook that paused it. It can be one of another process.

        Raises `PicohookError` for a turn of another session, and for a decision that is no answer where it paused.
        """
        if paused.meta.session_key != self.id:
            raise PicohookError(f"the paused turn is of session {paused.meta.session_key!r}, and this is {self.id!r}")
        if isinstance(decision, Approve | Pause) or decision.action not in STAGES[paused.stage].actions:
            raise PicohookError(f"{type(decision).__name__} is no answer for a hook that paused at {paused.stage}")
        paused = paused.model_copy(deep=True)  # so that it can be resumed from again
        return Turn(self, paused.meta, paused.user_message, parent=parent, resumed=(paused, decision))
