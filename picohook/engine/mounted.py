"""The hooks of a host while it runs: started, asked, exchanged and ended."""

from __future__ import annotations

import difflib
import functools
import os
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..contain.tiers import Containment
from ..errors import ConfigError, HookCrashedError, PicohookError, Problem
from ..hooks.base import Site
from ..model.spec import NO_MODEL, NO_MODEL_HINT
from ..model.stages import STAGES
from ..transport.event_loop import current_reactor
from .event_queue import Outbox
from .generations import Chains, Mounted, Service
from .order import OF_SESSION, audiences, in_order, seats
from .tool_ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ..hooks.base import Complete, Hook, StateChange
    from ..model.events import Event
    from ..model.spec import HookSpec, Timeouts
    from ..observe.log import Log
    from ..process.plan import Verify
    from ..protocol.raw_line import RawLine
    from ..transport.reactor import Reactor
    from .order import Audience
    from .session_hooks import SessionHooks

T = TypeVar("T")

LAST_RESORT = 5.0
"""How long after all its graces a hook may take to end before its task is cancelled."""
_running: weakref.WeakSet[MountedHooks] = weakref.WeakSet()


class MountedHooks:
    """Every hook that runs, who of them is asked where, and the host's own tasks.

    A hook that is *mounted* is asked and told. One that was taken out may be *alive* still: it ends in its own time.
    """

    def __init__(
        self,
        log: Log,
        timeouts: Timeouts,
        *,
        verify: Verify | None,
        complete: Complete | None,
        model_of: Callable[[HookSpec], Complete | None] | None = None,
        notice: Callable[[StateChange], None],
    ) -> None:
        self.log = log
        self.timeouts = timeouts
        self.by_name: Mapping[str, Mounted] = {}
        self.chains = dict.fromkeys(STAGES, Chains())
        """For each stage, who is asked, and the chains that began so."""
        self.audiences: dict[str, Audience] = {}
        """For each kind of event, who is told."""
        self.owners = Ownership()
        self.sessions: set[SessionHooks] = set()
        """The sessions that have hooks of their own."""
        self.containment: Containment | None = None
        self.outbox: Outbox
        self.told: Callable[[Event, Sequence[Hook]], None] | None = None
        """Called with every event that is handed on, and to whom."""
        self.tap: Callable[[RawLine], None] | None = None
        """Told of every line that goes to a hook's process or comes from it."""
        self._verify = verify
        # No method of this object: a hook that had one would keep it.
        self.model_of = (lambda _: complete) if complete is not None or model_of is None else model_of
        """What asks the model of a hook: the embedder's, or that of the hook's configuration."""
        self._notice = notice
        self._alive: dict[Mounted, Site] = {}
        self._services: set[Service[Any]] = set()
        self._reactor: Reactor | None = None
        self._closed = False
        self._closing: Service[None] | None = None
        self.inherited = False
        """This process is a child that the host's own process forked while the host ran: the hooks are not its own."""

    # Life.

    def require_new(self) -> None:
        """Raises if it was entered already."""
        if self._reactor is not None:
            raise PicohookError("a host is entered once: make another one")

    async def enter(self) -> None:
        """From here on hooks can be mounted. Has to be followed by `leave`, in any task of this event loop."""
        self._reactor = current_reactor()
        _running.add(self)
        self.outbox = Outbox(self._reactor, self.told)
        self.containment = Containment(self._reactor, self.log)

    async def leave(self) -> bool:
        """End everything: all hooks, and the host's own tasks. Any task may do it, and twice is fine.

        This runs in a task of its own, and comes to its end even where asyncio cancels the caller through a shield. Such a
        cancellation is raised afterwards. Returns whether everything has ended: a hook that closes its own host cannot wait
        for its own end, and a child that was forked while the host ran ends nothing of its parent's. Raises `PicohookError`
        in another event loop.
        """
        if self.inherited:
            return False
        self.require_loop()
        self._closed = True
        if self._reactor is None:
            return True
        if self._closing is None:
            for service in self._services:
                service.scope.cancel()
            self.outbox.flush()
            self._stop(*self.by_name.values(), *self._alive)
            self._closing = Service(self._close, set())
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
            await self.containment.aclose()

    def _cancel(self) -> None:
        for one in self._left():
            one.scope.cancel()

    def _left(self) -> list[Mounted | Service[Any]]:
        """What still has a task."""
        return [*self._alive, *self._services]

    def require_open(self) -> Reactor:
        """The event loop; raises unless the host runs."""
        if self._reactor is None:
            raise PicohookError("the host is not running: use it inside `async with`")
        if self._closed:
            self.require_own()
            raise PicohookError("the host is closed")
        return self._reactor

    def require_here(self) -> Reactor:
        """The event loop; raises unless the host runs, and in this one."""
        reactor = self.require_open()
        self.require_loop()
        return reactor

    def require_own(self) -> None:
        """Raises in a child that was forked while the host ran."""
        if self.inherited:
            raise PicohookError(
                "the host runs in the process that forked this one: enter one of your own after the fork"
            )

    def require_loop(self) -> None:
        """Raises in another event loop than the one that the host was entered in."""
        if self._reactor is not None and not self._reactor.is_here():
            raise PicohookError("the host runs in another event loop: use it there")

    def forked(self) -> None:
        """This is a child of the host's process: the host is closed here, and nothing of it is touched."""
        self._closed = self.inherited = True

    def begin(self, work: Callable[[], Awaitable[T]]) -> Service[T]:
        """Do something in a task of the host's own, until the host ends."""
        assert self._reactor is not None
        service = Service(work, self._services)
        service.start(self._reactor)
        return service

    # Coming and going.

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are mounted."""
        return tuple(mounted.hook for mounted in self.by_name.values())

    def find(self, name: str) -> Hook:
        """The hook of this name."""
        if name in self.by_name:
            return self.by_name[name].hook
        near = difflib.get_close_matches(name, self.by_name, 1)
        raise PicohookError(f"no hook named {name!r} is mounted" + (f": did you mean {near[0]!r}?" if near else ""))

    def alive(self, name: str) -> list[Mounted]:
        """All hooks of a name whose tasks have not ended."""
        return [one for one in self._alive if one.hook.name == name]

    def mount(self, *hooks: Hook) -> None:
        """Start hooks, and have them asked; what can be said against it is said before any is started."""
        self.require_here()
        self.require_ended(hooks)
        names = Counter([*self.by_name, *(hook.name for hook in hooks)])
        for hook in hooks:
            if not hook.name:
                raise PicohookError("a hook needs a name")
            if names[hook.name] > 1:
                raise PicohookError(f"a hook named {hook.name!r} is mounted already")
            if hook.name.endswith(OF_SESSION):
                raise PicohookError(
                    f"{hook.name!r} ends in {OF_SESSION}, as only the names of a session's own hooks do"
                )
        in_order([*self.hooks, *hooks])
        self.require_models(hooks)
        self.seat({**self.by_name, **{hook.name: self.open(hook) for hook in hooks}})

    def require_ended(self, hooks: Iterable[Hook]) -> None:
        """Raise for a hook that runs: it is mounted, in a session or not, or has not come to its end."""
        alive = {id(one.hook) for one in self._alive}
        for hook in hooks:
            if id(hook) in alive:
                raise PicohookError(f"hook {hook.name!r} is mounted already, and is mounted once: make another one")

    def require_models(self, hooks: Iterable[Hook]) -> None:
        """Raise `ConfigError` for hooks that ask a model, and have none to ask."""
        lacking = [hook.spec for hook in hooks if hook.spec.prompt is not None and self.model_of(hook.spec) is None]
        if lacking:
            raise ConfigError(
                Problem(spec.source or "(code)", f"hooks.{spec.name}", NO_MODEL, NO_MODEL_HINT) for spec in lacking
            )

    async def started(self, hook: Hook) -> None:
        """Until it can serve or its first start has failed, which raises if it is `required`."""
        await hook.started()
        if hook.spec.required and hook.error is not None and hook in self.hooks:
            raise HookCrashedError(f"hook {hook.name} is required, and did not start: {hook.error}", hook=hook.name)

    async def unmount(self, name: str) -> None:
        """Take a hook out of every chain at once, then stop it. Calls it is busy with fail."""
        self.require_here()
        mounted = self.by_name[self.find(name).name]
        in_order(hook for hook in self.hooks if hook.name != name)  # raises where another's `after` names it
        self.seat({other: one for other, one in self.by_name.items() if other != name})
        self._stop(mounted)
        with anyio.CancelScope(shield=True):
            await self._stopped(mounted)

    def open(self, hook: Hook) -> Mounted:
        """Start a hook that nobody asks yet."""
        log = self.log.bind(hook=hook.name)
        reactor = self.require_open()
        assert self.containment is not None
        site = Site(reactor, log, self.timeouts, self.containment, self._verify, self.model_of, self._notice, self.tap)
        hook.failures.log_to(log)
        hook.open(site)
        mounted = Mounted(hook, anyio.Event())
        self._alive[mounted] = site
        reactor.spawn(functools.partial(self._run, mounted, log), functools.partial(self._over, mounted))
        return mounted

    async def _run(self, mounted: Mounted, log: Log) -> None:
        try:
            mounted.task = anyio.get_current_task().id
            with mounted.scope:
                await mounted.hook.run()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook's own task must not end the embedder's
            log.error("its task broke", why=repr(error))

    def _over(self, mounted: Mounted) -> None:
        mounted.hook.failures.close()
        del self._alive[mounted]
        mounted.ended.set()

    def seat(self, mounted: Mapping[str, Mounted], timeouts: Timeouts | None = None) -> None:
        """Have these asked and told, and no others, from now on; with other timeouts, if they change.

        The tuples are replaced, not changed: a chain under way keeps the one it has.
        """
        self.outbox.flush()
        self.by_name = mounted
        self.timeouts = timeouts or self.timeouts
        for site in self._alive.values():
            site.timeouts = self.timeouts
        ordered = in_order(self.hooks)
        asked = seats(ordered, self.timeouts)
        for name, stage in STAGES.items():
            self.chains[name] = self.chains[name].followed(stage, asked[name], self.timeouts)
        self.audiences = audiences(ordered)
        self.owners.provide({hook.name: hook.spec.provides for hook in ordered})
        for session in self.sessions:
            session.arrange()

    def retire(self, mounted: Mounted) -> Service[None]:
        """Stop a hook that is asked no longer, once the chains that may still ask it are over."""
        arrangements = [self.chains, *(session.chains for session in self.sessions)]
        chains = [chains[stage] for chains in arrangements for stage in mounted.hook.spec.asked_at]

        async def drain_and_stop() -> None:
            for one in chains:
                await one.drained()
            await self.stop(mounted)

        return self.begin(drain_and_stop)

    async def stop(self, *mounted: Mounted) -> None:
        """Stop hooks, and wait until they have ended, or have had the time for it."""
        self._stop(*mounted)
        await self._stopped(*mounted)

    def _stop(self, *mounted: Mounted) -> None:
        for one in mounted:
            one.hook.stop()

    async def _stopped(self, *mounted: Mounted) -> None:
        """Until they have ended, or have had the time for it."""
        for one in mounted:
            with anyio.move_on_after(3 * one.hook.spec.grace + LAST_RESORT):
                await one.ended.wait()


def _forked() -> None:
    for mounted_hooks in tuple(_running):
        mounted_hooks.forked()


os.register_at_fork(after_in_child=_forked)
