"""The state that all turns of a session share: its view of the host, its place, its conversation, and its own hooks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio

from ..calls.abort import HardAbortError
from ..calls.caller import Caller
from ..engine.arrangement import Arrangement, Mounted
from ..engine.lifecycle import MountedHooks
from ..engine.order import in_order
from ..errors import PicohookError
from ..hooks.base import Hook
from ..model.decisions import Outcome
from ..model.payloads import Meta, Payload
from ..model.spec import OF_SESSION, HookSpec
from ..transport.reactor import Reactor
from ..wire import words
from .delivery import Delivery


class SessionHooks(Arrangement):
    """The arrangement of one session: the host's hooks, and the session's own after them."""

    def __init__(self, mounted_hooks: MountedHooks, session_id: str) -> None:
        super().__init__(mounted_hooks.owners.branch(session_id), mounted_hooks.timeouts)
        self.session_id = session_id
        self._mounted = mounted_hooks
        self._over = False
        self.seat({})
        mounted_hooks.sessions.add(self)

    def require_here(self) -> Reactor:
        """The event loop. Raises `PicohookError` when the session is over, since its hooks would not be asked."""
        if self._over:
            raise PicohookError("the session is over, and its hooks are gone")
        return self._mounted.require_here()

    def seat(self, mounted: Mapping[str, Mounted]) -> None:
        """From now on, ask these hooks after those that the host has now."""
        self.own = mounted
        self.by_name = {**self._mounted.by_name, **mounted}
        self.arrange(in_order(self.hooks, checked=()), self._mounted.timeouts)

    async def add(self, *hooks: Hook) -> None:
        """Start and mount hooks. If one cannot be mounted, or is required and fails, raises and mounts none."""
        self.require_here()
        self._mounted.require_ended(hooks)
        siblings = {*self.own, *(hook.name for hook in hooks), *(hook.name + OF_SESSION for hook in hooks)}
        for hook in hooks:
            hook.spec = _placed(hook.spec, siblings)
        await self._mounted.add(*hooks, among=self)

    async def remove(self, name: str) -> None:
        """Take one of the session's own hooks out of every chain at once, then stop it."""
        self._mounted.require_here()
        full = name if name in self.own else name + OF_SESSION
        if full not in self.own:
            raise PicohookError(f"the session has no hook named {name!r}")
        await self._mounted.unmount(full, self)

    async def close(self) -> None:
        """Stop the hooks of the session, which is over. Raises in another event loop."""
        self._mounted.require_loop()
        self._over = True
        self._mounted.sessions.discard(self)
        await self._mounted.take_out(*(mounted.hook for mounted in self.own.values()), among=self)


def _placed(spec: HookSpec, siblings: set[str]) -> HookSpec:
    """The settings of a session's hook, with a name that no hook of the host can have."""
    if spec.layer not in {None, "session"}:
        raise PicohookError(f"a session's hook is of the layer session, and {spec.name!r} says {spec.layer!r}")
    name = spec.name.removesuffix(OF_SESSION) + OF_SESSION

    def full(other: str) -> str:
        return other + OF_SESSION if other + OF_SESSION in siblings else other

    named = {"after": tuple(map(full, spec.after)), "fallback": spec.fallback and full(spec.fallback)}
    return spec.model_copy(update={"name": name, "layer": "session", **named})


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
