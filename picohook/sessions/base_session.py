"""The state that all turns of a session share: its host, its place, its conversation, and its own hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from ..calls.abort import HardAbortError
from ..errors import PicohookError
from ..model.payloads import Meta, Payload
from ..model.spec import HookSpec
from .view import SessionView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from ..calls.caller import Caller
    from ..hooks.base import Hook
    from .delivery import Delivery
    from .view import SessionHooks


class BaseSession:
    """A session without the methods that make turns: see `Session`."""

    def __init__(
        self,
        host: Caller,
        session_id: str,
        *,
        agent_id: str = "",
        channel: str = "",
        chat_id: str = "",
        context: dict[str, Any] | None = None,
        deliver: Callable[[Delivery], Any] | None = None,
        show: Callable[[str], Any] | None = None,
        hooks: Iterable[Hook | HookSpec] = (),
        shared: bool = False,
    ) -> None:
        """With `shared`, a session of another session's host has the hooks of that session, and ends with it."""
        self._host = host if shared and isinstance(host, SessionView) else host.view(SessionView)
        self._waiting = tuple(hooks)
        self._own: SessionHooks | None = None
        self._entered = False
        self.id = session_id
        self.agent_id = agent_id
        self.channel = channel
        self.chat_id = chat_id
        self.context = context
        """The place where the user speaks, as `inbound`, `route` and `scope`. Hooks see it at every stage."""
        self.deliver = deliver
        """Brings a result's media and text to the user. If it raises, the model is told the error."""
        self.show = show
        """Shows the user a hook's `system_message`. Its result is not awaited."""
        self.messages: list[dict[str, Any]] = []
        """The conversation, as the last turn left it and the next one finds it."""
        self.added: tuple[list[str], list[dict[str, Any]]] = ([], [])
        """The context and the messages that hooks added after the last request of a turn. The next turn's request gets them."""

    @property
    def host(self) -> SessionView:
        """The host as this session sees it: it also asks and tells the session's own hooks, after all others.

        Raises `PicohookError` if the session has hooks and is not entered: they would not be asked.
        """
        if self._waiting:
            raise PicohookError(f"session {self.id!r} has hooks, and is not entered: use it inside `async with`")
        return self._host

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The session's own hooks, in the order in which they were mounted. Their names end in "@session"."""
        return () if self._own is None else tuple(mounted.hook for mounted in self._own.own.values())

    async def mount(self, *hooks: Hook | HookSpec) -> None:
        """Add hooks to this session alone: to this object, and not to others of the same id.

        They are asked after all hooks of the host, are told this session's events, and are stopped at its end. Returns when
        each can serve or its first start has failed. Raises `PicohookError` outside of the session's block.
        """
        if not self._entered:
            raise PicohookError(f"session {self.id!r} is not open: mount its hooks inside `async with`")
        if self._own is None:
            self._own = self._host.add_hooks(self.id)
        await self._own.add(*(hook.make() if isinstance(hook, HookSpec) else hook for hook in hooks))

    async def unmount(self, name: str) -> None:
        """Take one of the session's own hooks out of its chains at once, then stop it. Its calls in flight fail."""
        if self._own is None:
            raise PicohookError(f"the session has no hook named {name!r}")
        await self._own.remove(name)

    def require_open(self) -> None:
        """Raise `HardAbortError` when a hook has ended the session."""
        if (by := self._host.ended_by) is not None:
            why = f"hook {by.hook} ended the session: {by.reason}" if by.reason else f"hook {by.hook} ended the session"
            raise HardAbortError(replace(by, reason=why))

    @property
    def meta(self) -> Meta:
        """The meta of events and payloads that belong to the session, and to no turn."""
        return Meta(agent_id=self.agent_id, session_key=self.id, source="session")

    def about(self, meta: Meta) -> Payload:
        """A payload with this meta and the session's place, for its events."""
        return Payload(meta=meta, context=self.context, channel=self.channel, chat_id=self.chat_id)

    async def __aenter__(self) -> Self:
        self.require_open()
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
            return  # in a child that was forked while the host ran: the session is its parent's
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
