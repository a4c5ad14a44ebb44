"""A session's view of its host: the hooks of the host, and after them those of the session alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..calls.caller import Caller
from ..engine.arrangement import Arrangement
from ..engine.order import in_order
from ..errors import PicohookError
from ..model.spec import OF_SESSION
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.lifecycle import MountedHooks
    from ..engine.tasks import Mounted
    from ..hooks.base import Hook
    from ..model.decisions import Outcome
    from ..model.spec import HookSpec
    from ..transport.reactor import Reactor


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
