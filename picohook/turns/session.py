"""A session with a user: what its turns have in common."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import PicohookError
from ..hooks import make_hook
from ..model.decisions import Approve, Pause
from ..model.payloads import Meta, Payload
from ..model.spec import HookSpec
from ..model.stages import STAGES
from .errors import HardAbortError
from .turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from ..engine.engine import Engine
    from ..engine.session_hooks import SessionHooks
    from ..hooks.base import Hook
    from ..model.decisions import Decision
    from .delivery import Delivery
    from .paused import PausedTurn


class Session:
    """Made by `Host.session`. Its block begins with session_start and ends with session_end, which observers may act on.

    `hooks` are asked and told in this session alone: in its turns, and by its `host`.
    """

    kind_of_turn = Turn
    """What `turn` makes."""

    def __init__(
        self,
        host: Engine,
        session_id: str,
        *,
        agent_id: str = "",
        channel: str = "",
        chat_id: str = "",
        context: dict[str, Any] | None = None,
        deliver: Callable[[Delivery], Any] | None = None,
        show: Callable[[str], Any] | None = None,
        hooks: Iterable[Hook | HookSpec] = (),
    ) -> None:
        self._host = host.for_session()
        self._waiting = tuple(hooks)
        self._own: SessionHooks | None = None
        self._entered = False
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
    def host(self) -> Engine:
        """The host, as this session asks and tells it: with the session's own hooks behind the others.

        Raises `PicohookError` for a session that was given hooks and is not entered: they would not be asked.
        """
        if self._waiting:
            raise PicohookError(f"session {self.id!r} has hooks, and is not entered: use it inside `async with`")
        return self._host

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The session's own hooks, in the order in which they were mounted. Their names end in "@session"."""
        return () if self._own is None else self._own.own

    async def mount(self, *hooks: Hook | HookSpec) -> None:
        """Add hooks to this session alone: to this object, and not to others of the same id.

        They are asked behind all hooks of the host, are told this session's events, and are stopped at its end. Returns when
        each can serve or its first start has failed. Raises `PicohookError` outside of the session's block.
        """
        if not self._entered:
            raise PicohookError(f"session {self.id!r} is not open: mount its hooks inside `async with`")
        if self._own is None:
            self._own = self._host.with_hooks_of(self.id)
        await self._own.add(*(make_hook(hook) if isinstance(hook, HookSpec) else hook for hook in hooks))

    async def unmount(self, name: str) -> None:
        """Take one of the session's own hooks out of its chains at once, then stop it. Calls it is busy with fail."""
        if self._own is None:
            raise PicohookError(f"the session has no hook named {name!r}")
        await self._own.remove(name)

    def require_going(self) -> None:
        """Raise `HardAbortError` when a hook has ended the session."""
        if (by := self._host.ended_by) is not None:
            why = f"hook {by.hook} ended the session: {by.reason}" if by.reason else f"hook {by.hook} ended the session"
            raise HardAbortError(replace(by, reason=why))

    @property
    def meta(self) -> Meta:
        """Of what belongs to the session, and to no turn."""
        return Meta(agent_id=self.agent_id, session_key=self.id, source="session")

    def about(self, meta: Meta) -> Payload:
        """What has this meta and belongs to this session, for its events."""
        return Payload(meta=meta, context=self.context, channel=self.channel, chat_id=self.chat_id)

    async def __aenter__(self) -> Self:
        self.require_going()
        self._entered = True
        waiting, self._waiting = self._waiting, ()
        if waiting:
            try:
                await self.mount(*waiting)
            except BaseException:
                await self._close()
                raise
        self.host.emit("session_start", self._told, about=self.about(self.meta))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host.inherited:
            return  # in a child that was forked while the host ran: all that is to be ended is its parent's
        try:
            with anyio.CancelScope(shield=True):
                await self.host.emit_and_wait("session_end", self._told, about=self.about(self.meta))
        finally:
            self._host.forget(self.id)
            await self._close()

    async def _close(self) -> None:
        if self._own is not None:
            await self._own.close()
        self._entered = False

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
        """A new turn; with `parent`, a sub-turn: it begins with no conversation, and its result goes to its parent.

        Raises `HardAbortError` when a hook has ended the session, as Blade's `abort` does.
        """
        self.require_going()
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

        Raises `PicohookError` for a turn of another session, and for a decision that is no answer where it paused, and
        `HardAbortError` as `turn` does.
        """
        self.require_going()
        if paused.meta.session_key != self.id:
            raise PicohookError(f"the paused turn is of session {paused.meta.session_key!r}, and this is {self.id!r}")
        if isinstance(decision, Approve | Pause) or decision.action not in STAGES[paused.stage].actions:
            raise PicohookError(f"{type(decision).__name__} is no answer for a hook that paused at {paused.stage}")
        paused = paused.model_copy(deep=True)  # so that it can be resumed from again
        return Turn(self, paused.meta, paused.user_message, parent=parent, resumed=(paused, decision))
