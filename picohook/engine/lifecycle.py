"""The mounted hooks of a host: they are started, replaced and stopped here."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..errors import ConfigError, HookCrashedError, PicohookError
from ..hooks.base import HostServices
from ..model.spec import OF_SESSION
from ..model.stages import APPROVE_TOOL
from ..transport.event_loop import current_reactor
from ..wire.did_you_mean import nearest
from .arrangement import Arrangement, Mounted, Service
from .event_queue import EventQueue
from .order import in_order
from .tool_ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ..hooks.base import Hook
    from ..model.payloads import ToolCall
    from ..model.spec import Timeouts
    from ..observe.log import Log
    from ..process.plan import Verify
    from ..process.spawn import HostSpawner
    from ..transport.reactor import Reactor
    from .listener import Listeners
    from .part import Parts

T = TypeVar("T")

LAST_RESORT = 5.0
"""Seconds after all its graces in which a hook may end before its task is cancelled."""
_running: weakref.WeakSet[MountedHooks] = weakref.WeakSet()


class MountedHooks(Arrangement):
    """All hooks of a host, and the host's own tasks.

    A *mounted* hook is asked, and gets events. An unmounted hook stays *alive* until it has ended.
    """

    def __init__(
        self, log: Log, timeouts: Timeouts, listeners: Listeners, parts: Parts, *, verify: Verify | None
    ) -> None:
        super().__init__(Ownership(), timeouts)
        self.log = log
        self.timeouts = timeouts
        self.listeners = listeners
        self.parts = parts
        """What extensions add to the host."""
        self.sessions: set[Arrangement] = set()
        """The arrangements of sessions that have hooks of their own."""
        self.containment: HostSpawner | None = None
        self._site: HostServices
        self.events: EventQueue
        self.on_seated: set[Callable[[], None]] = set()
        """Functions that are called when other hooks are mounted than before."""
        self._verify = verify
        self._alive: dict[Mounted, HostServices] = {}
        self._services: set[Service[Any]] = set()
        self._reactor: Reactor | None = None
        self._closed = False
        self._closing: Service[None] | None = None
        self.inherited = False
        """Whether this process was forked from the host's while the host ran: the hooks belong to the parent."""

    # Life.

    def require_new(self) -> None:
        if self._reactor is not None:
            raise PicohookError("a host is entered once: make another one")

    async def enter(self, spawner: Callable[[Reactor, Log], HostSpawner]) -> None:
        """Allow hooks to be mounted from here on. Call `leave` afterwards, in any task of this event loop.

        `spawner` makes the object that starts processes.
        """
        self._reactor = current_reactor()
        _running.add(self)
        self.events = EventQueue(self._reactor)
        self.containment = spawner(self._reactor, self.log)
        has_approver = weakref.WeakMethod(self.has_approver)  # no hook keeps this object alive
        self._site = HostServices(
            self._reactor,
            self.log,
            self.timeouts,
            self.containment,
            self._verify,
            self.listeners.tap,
            self.listeners.changed,
            lambda *asked: (ask := has_approver()) is not None and ask(*asked),
            self.parts.find,
        )

    async def leave(self) -> bool:
        """Stop all hooks and the host's own tasks. Any task may call it, and calling it twice is fine.

        The work runs in a task of its own, and is completed even if asyncio cancels the caller through a shield. Such a
        cancellation is raised afterwards.

        Returns whether everything has ended. It is False for a hook that closes its own host, since the hook cannot wait for
        its own end, and in a child that was forked while the host ran. Raises `PicohookError` in another event loop.
        """
        if self.inherited:
            return False
        self.require_loop()
        self._closed = True
        if self._reactor is None:
            return True
        if self._closing is None:
            for service in self._services:
                service.cancel()
            self.events.flush()
            self._stop(*dict.fromkeys((*self.by_name.values(), *self._alive)))
            self._closing = Service(self._close)
            self._closing.start(self._reactor)
        me = anyio.get_current_task().id
        if any(one.task == me for one in self._left()):
            return False
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not self._closing.ended.is_set():
                try:
                    await self._closing.ended.wait()
                except anyio.get_cancelled_exc_class() as error:
                    cancelled = error
                    self._cancel()
        raised = cancelled or self._closing.error
        if raised is not None:
            raise raised
        return True

    async def _close(self) -> None:
        try:
            await self._stopped(*self._alive)
            while left := self._left():
                self._cancel()
                await left[0].ended.wait()
        finally:
            assert self.containment is not None
            try:
                await self._site.aclose()
            finally:
                await self.containment.aclose()

    def _cancel(self) -> None:
        for one in self._left():
            one.cancel()

    def _left(self) -> list[Service[Any]]:
        """The hooks and services whose tasks have not ended."""
        return [*self._alive, *self._services]

    def require_open(self) -> Reactor:
        """The event loop. Raises `PicohookError` unless the host runs."""
        if self._reactor is None:
            raise PicohookError("the host is not running: use it inside `async with`")
        if self.inherited:
            raise PicohookError("the host runs in the process that forked this one: make a new host after the fork")
        if self._closed:
            raise PicohookError("the host is closed: use it inside its `async with`, and make another one afterwards")
        return self._reactor

    def require_here(self) -> Reactor:
        """The event loop. Raises `PicohookError` unless the host runs in the current event loop."""
        reactor = self._reactor
        if reactor is None or self._closed or not reactor.is_here():
            reactor = self.require_open()
            self.require_loop()
        return reactor

    def require_loop(self) -> None:
        """Raise `PicohookError` unless the host was entered in the current event loop."""
        if self._reactor is not None and not self._reactor.is_here():
            raise PicohookError("the host runs in another event loop: use it there")

    def forked(self) -> None:
        """Close the host in a forked child of its process, and leave the hooks to the parent."""
        self._closed = self.inherited = True

    def begin(self, work: Callable[[], Awaitable[T]]) -> Service[T]:
        """Run `work` in a task of the host's own. Returns its service. The task is cancelled when the host ends."""
        assert self._reactor is not None
        service = Service(work, self._services.discard)
        self._services.add(service)
        service.start(self._reactor)
        return service

    # Mounting and unmounting.

    def find(self, name: str) -> Hook:
        """The hook of this name. Raises `PicohookError` if there is no such hook."""
        if name in self.by_name:
            return self.by_name[name].hook
        near = nearest(name, self.by_name)
        raise PicohookError(f"no hook named {name!r} is mounted" + (f": did you mean {near!r}?" if near else ""))

    def alive(self, name: str) -> list[Mounted]:
        return [one for one in self._alive if one.hook.name == name]

    def mount(self, *hooks: Hook, among: Arrangement | None = None) -> None:
        """Start hooks, ask them from now on, and send them events: by default those of the host, else those of a session.

        If one cannot be mounted, raises before any is started.
        """
        place = among or self
        place.require_here()
        self.require_ended(hooks)
        names = Counter([*place.own, *(hook.name for hook in hooks)])
        for hook in hooks:
            name = hook.name.removesuffix(OF_SESSION)
            if not name:
                raise PicohookError("a hook needs a name")
            if names[hook.name] > 1:
                raise PicohookError(f"a hook named {name!r} is mounted already")
            if place is self and name != hook.name:
                raise PicohookError(
                    f"a hook cannot be named {hook.name!r}: only the names of a session's own hooks end in {OF_SESSION}"
                )
        own = [*(mounted.hook for mounted in place.own.values()), *hooks]
        in_order([*place.hooks, *hooks], checked=own)
        self.require_usable(hooks)
        place.seat({**place.own, **{hook.name: self.open(hook) for hook in hooks}})

    async def add(self, *hooks: Hook, among: Arrangement | None = None) -> None:
        """Mount hooks, and wait until each can serve or its first start has failed. Raises as `mount` does.

        If one is `required` and its first start fails, raises `HookCrashedError`, and mounts none.
        """
        self.mount(*hooks, among=among)
        try:
            for hook in hooks:
                await hook.started()
                if hook.spec.required and hook.error is not None and hook in (among or self).hooks:
                    why = f"hook {hook.name} is required, and did not start: {hook.error}"
                    raise HookCrashedError(why, hook=hook.name)
        except BaseException:
            await self.take_out(*hooks, among=among)
            raise

    async def unmount(self, name: str, among: Arrangement | None = None) -> None:
        """Take a hook out of every chain at once, then stop it. Its calls in flight fail.

        Raises `ConfigError` if another hook is to be asked after it.
        """
        place = among or self
        self.require_here()
        hook = place.own[name].hook
        left = [one for one in place.hooks if one is not hook]
        in_order(left, checked=[one for one in left if one.name in place.own])
        await self.take_out(hook, among=among)

    async def take_out(self, *hooks: Hook, among: Arrangement | None = None) -> None:
        """Take those of the hooks that are mounted out of every chain, whatever other hooks need, and stop them."""
        place = among or self
        self.events.flush()
        gone = [mounted for mounted in place.own.values() if mounted.hook in hooks]
        place.seat({name: mounted for name, mounted in place.own.items() if mounted not in gone})
        with anyio.CancelScope(shield=True):
            await self.stop(*gone)

    def require_ended(self, hooks: Iterable[Hook]) -> None:
        """Raise `PicohookError` for a hook that is mounted, here or in a session, or that has not ended yet."""
        alive = {id(one.hook) for one in self._alive}
        for hook in hooks:
            if id(hook) in alive:
                raise PicohookError(f"hook {hook.name!r} is mounted already: make another one")

    def require_usable(self, hooks: Iterable[Hook]) -> None:
        """Raise `ConfigError` for hooks that the host cannot mount, such as one that asks a model on a host without a model."""
        problems = [problem for hook in hooks if (problem := hook.problem(self._site)) is not None]
        if problems:
            raise ConfigError(problems)

    def has_approver(self, call: ToolCall, abstaining: Hook | None = None) -> bool:
        """Whether a hook of the host, or of the call's session, is asked to approve the call.

        A hook that approves silently does not count. If the caller is a hook that abstains, hooks that may abstain too do not
        count: they would wait for each other.
        """
        session = call.meta.session_key
        return any(
            seat.wants(call)
            and not (seat.hook.approves_silently or seat.shadow)
            and not (abstaining is not None and seat.hook.abstains)
            for arrangement in (self, *(one for one in self.sessions if one.session_id == session))
            for seat in arrangement.generations[APPROVE_TOOL.name].seats
        )

    def open(self, hook: Hook) -> Mounted:
        """Start a hook that is not asked yet."""
        log = self.log.bind(hook=hook.name)
        reactor = self.require_open()
        site = replace(self._site, log=log)
        hook.failures.log_to(log)
        hook.open(site)
        mounted = Mounted(hook, self._over)
        self._alive[mounted] = site
        mounted.start(reactor)
        return mounted

    def _over(self, mounted: Mounted) -> None:
        mounted.hook.failures.close()
        log = self._alive.pop(mounted).log
        if mounted.error is not None:
            log.error("the task of a hook failed", why=repr(mounted.error))

    def seat(self, mounted: Mapping[str, Mounted], timeouts: Timeouts | None = None) -> None:
        """From now on, ask only these hooks and send events only to them, with these timeouts if they are given."""
        self.events.flush()
        self.own = self.by_name = mounted
        self.timeouts = timeouts or self.timeouts
        for site in (self._site, *self._alive.values()):
            site.timeouts = self.timeouts
        self.arrange(in_order(self.hooks, checked=()), self.timeouts)
        for session in self.sessions:
            session.seat(session.own)
        for call in tuple(self.on_seated):
            call()

    def retire(self, mounted: Mounted) -> Service[None]:
        """Stop a hook that is no longer asked, once the chains that may still ask it are over."""
        stages = mounted.hook.spec.asked_at
        earlier = [one for place in (self, *self.sessions) for one in place.earlier if one.stage.name in stages]

        async def drain_and_stop() -> None:
            for generation in earlier:
                await generation.over()
            await self.stop(mounted)

        return self.begin(drain_and_stop)

    async def stop(self, *mounted: Mounted) -> None:
        """Stop hooks, and wait until they have ended, for as long as their graces allow."""
        self._stop(*mounted)
        await self._stopped(*mounted)

    def _stop(self, *mounted: Mounted) -> None:
        for one in mounted:
            one.hook.stop()

    async def _stopped(self, *mounted: Mounted) -> None:
        for one in mounted:
            if not one.ended.is_set():
                with anyio.move_on_after(3 * one.hook.spec.grace + LAST_RESORT):
                    await one.ended.wait()


def _forked() -> None:
    for mounted_hooks in tuple(_running):
        mounted_hooks.forked()


os.register_at_fork(after_in_child=_forked)
