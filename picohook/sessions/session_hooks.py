"""The hooks of one session, asked after those of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..engine.order import Arrangement, check_session_hooks, with_session_hooks
from ..errors import HookCrashedError, PicohookError
from ..model.spec import OF_SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..engine.lifecycle import MountedHooks
    from ..engine.tasks import Mounted
    from ..hooks.base import Hook
    from ..model.spec import HookSpec
    from ..transport.reactor import Reactor


class SessionHooks(Arrangement):
    """The arrangement of one session: the host's hooks, and the session's own after them."""

    def __init__(self, mounted_hooks: MountedHooks, session_id: str) -> None:
        super().__init__(mounted_hooks.owners.branch(session_id))
        self.session_id = session_id
        self._mounted = mounted_hooks
        self._own: dict[str, Mounted] = {}
        self._over = False
        self.host_changed()
        mounted_hooks.sessions.add(self)

    def require_here(self) -> Reactor:
        """The event loop. Raises `PicohookError` when the session is over, since its hooks would not be asked."""
        if self._over:
            raise PicohookError("the session is over, and its hooks are gone")
        return self._mounted.require_here()

    @property
    def own(self) -> tuple[Hook, ...]:
        """The session's own hooks."""
        return tuple(mounted.hook for mounted in self._own.values())

    def host_changed(self) -> None:
        self.by_name = {**self._mounted.by_name, **self._own}
        self.arrange(with_session_hooks(self._mounted.hooks, self.own), self._mounted.timeouts)

    async def add(self, *hooks: Hook) -> None:
        """Start and mount hooks. If one cannot be mounted, or is required and fails, raises and mounts none."""
        self.require_here()
        self._mounted.require_ended(hooks)
        siblings = {hook.name for hook in (*self.own, *hooks)} | {hook.name + OF_SESSION for hook in hooks}
        for hook in hooks:
            hook.spec = _placed(hook.spec, siblings)
        names = [hook.name for hook in (*self.own, *hooks)]
        for hook in hooks:
            if names.count(hook.name) > 1:
                raise PicohookError(f"the session has a hook named {hook.name.removesuffix(OF_SESSION)!r} already")
        check_session_hooks(self._mounted.hooks, [*self.own, *hooks])
        self._mounted.require_usable(hooks)
        self._own |= {hook.name: self._mounted.open(hook) for hook in hooks}
        self.host_changed()
        try:
            for hook in hooks:
                await hook.started()
                if hook.spec.required and hook.error is not None:
                    raise HookCrashedError(
                        f"hook {hook.name} is required, and did not start: {hook.error}", hook=hook.name
                    )
        except BaseException:
            await self._take_out(hook.name for hook in hooks)
            raise

    async def remove(self, name: str) -> None:
        """Take one of the session's own hooks out of every chain at once, then stop it."""
        self._mounted.require_here()
        full = name if name in self._own else name + OF_SESSION
        if full not in self._own:
            raise PicohookError(f"the session has no hook named {name!r}")
        check_session_hooks(self._mounted.hooks, [hook for hook in self.own if hook.name != full])
        await self._take_out([full])

    async def close(self) -> None:
        """Stop the hooks of the session, which is over. Raises in another event loop."""
        self._mounted.require_loop()
        self._over = True
        self._mounted.sessions.discard(self)
        await self._take_out([*self._own])

    async def _take_out(self, names: Iterable[str]) -> None:
        gone = [self._own.pop(name) for name in [*names] if name in self._own]
        self._mounted.events.flush()
        self.host_changed()
        with anyio.CancelScope(shield=True):
            await self._mounted.stop(*gone)


def _placed(spec: HookSpec, siblings: set[str]) -> HookSpec:
    """The settings of a session's hook, with a name that no hook of the host can have."""
    if spec.layer not in {None, "session"}:
        raise PicohookError(f"a session's hook is of the layer session, and {spec.name!r} says {spec.layer!r}")
    if not spec.name:
        raise PicohookError("a hook needs a name")
    name = spec.name.removesuffix(OF_SESSION) + OF_SESSION

    def full(other: str) -> str:
        return other + OF_SESSION if other + OF_SESSION in siblings else other

    named = {"after": tuple(map(full, spec.after)), "fallback": spec.fallback and full(spec.fallback)}
    return spec.model_copy(update={"name": name, "layer": "session", **named})
