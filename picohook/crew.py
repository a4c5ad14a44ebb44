"""The hooks of a host while it runs: started, asked, exchanged and ended."""

from __future__ import annotations

import difflib
import os
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from .errors import HookCrashedError, PicohookError
from .hooks.base import Site
from .outbox import Outbox
from .ownership import Ownership
from .process.containment import Containment
from .roster import audiences, in_order, seats
from .stages import STAGES
from .transport.reactor import current_reactor
from .underway import Chains, Mounted, Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from anyio.abc import TaskGroup

    from .events import Event
    from .hooks.base import Complete, Hook, StateChange
    from .log import Log
    from .roster import Audience
    from .spec import HookSpec, Timeouts
    from .transport.reactor import Reactor

T = TypeVar("T")

LAST_RESORT = 5.0
"""How long after all its graces a hook may take to end before its task is cancelled."""
_running: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """Every hook that runs, who of them is asked where, and the host's own tasks.

    A hook that is *mounted* is asked and told. One that was taken out may be *alive* still: it ends in its own time.
    """

    def __init__(
        self,
        log: Log,
        timeouts: Timeouts,
        *,
        verify: Callable[[HookSpec], None] | None,
        complete: Complete | None,
        notice: Callable[[StateChange], None],
    ) -> None:
        self.log = log
        self.timeouts = timeouts
        self.mounted: Mapping[str, Mounted] = {}
        self.chains = dict.fromkeys(STAGES, Chains())
        """For each stage, who is asked, and the chains that began so."""
        self.audiences: dict[str, Audience] = {}
        """For each kind of event, who is told."""
        self.owners = Ownership()
        self.containment: Containment | None = None
        self.outbox: Outbox
        self.told: Callable[[Event, Sequence[Hook]], None] | None = None
        """Called with every event that is handed on, and to whom."""
        self._verify = verify
        self._complete = complete
        self._notice = notice
        self._alive: dict[Mounted, Site] = {}
        self._services: set[Service[Any]] = set()
        self._reactor: Reactor | None = None
        self._tasks: TaskGroup
        self._closed = False
        self.inherited = False
        """This process is a child that the host's own process forked while the host ran: the hooks are not its own."""

    # Life.

    def require_new(self) -> None:
        """Raises if it was entered already."""
        if self._reactor is not None:
            raise PicohookError("a host is entered once: make another one")

    async def enter(self) -> None:
        """From here on hooks can be mounted. Has to be followed by `leave`, in the same task."""
        self._reactor = current_reactor()
        _running.add(self)
        self.outbox = Outbox(self._reactor, self.log, self.told)
        self.containment = Containment(self._reactor, self.log)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()

    async def leave(self) -> None:
        """End everything. What the block raised goes on as it is, in no group: the host's own tasks raise nothing."""
        if self.inherited and self._reactor is not None and not self._reactor.is_here():
            return  # asyncio's loops do not run on in a forked child, where trio's do
        try:
            await self.end()
        finally:
            # Also when a cancellation of asyncio's own came through the shield: the processes are still taken down.
            self._tasks.cancel_scope.cancel()
            try:
                await self._tasks.__aexit__(None, None, None)
            finally:
                del self._tasks  # it leads to the task that has the host
                await self._release()

    async def end(self) -> None:
        """Stop all hooks, and the host's own tasks. Twice is fine."""
        if self._reactor is not None and not self.inherited:
            self._require_loop(self._reactor)
        self._closed = True
        if self._reactor is None or self.inherited:
            return
        with anyio.CancelScope(shield=True):
            services = list(self._services)
            for service in services:
                service.cancel()
            self.outbox.flush()
            await self._stop(*{*self.mounted.values(), *self._alive})
            for service in services:
                await service.ended()
            await self._release()

    async def _release(self) -> None:
        if self.containment is not None:
            await self.containment.aclose()

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
        self._require_loop(reactor)
        return reactor

    def require_own(self) -> None:
        """Raises in a child that was forked while the host ran."""
        if self.inherited:
            raise PicohookError(
                "the host runs in the process that forked this one: enter one of your own after the fork"
            )

    @staticmethod
    def _require_loop(reactor: Reactor) -> None:
        if not reactor.is_here():
            raise PicohookError("the host runs in another event loop: use it there")

    def forked(self) -> None:
        """This is a child of the host's process: the host is closed here, and nothing of it is touched."""
        self._closed = self.inherited = True

    def begin(self, work: Callable[[], Awaitable[T]]) -> Service[T]:
        """Do something in a task of the host's own, until the host ends."""
        service = Service(work, self._services)
        self._tasks.start_soon(service.run)
        return service

    # Coming and going.

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are mounted."""
        return tuple(mounted.hook for mounted in self.mounted.values())

    def find(self, name: str) -> Hook:
        """The hook of this name."""
        if name in self.mounted:
            return self.mounted[name].hook
        near = difflib.get_close_matches(name, self.mounted, 1)
        raise PicohookError(f"no hook named {name!r} is mounted" + (f": did you mean {near[0]!r}?" if near else ""))

    def alive(self, name: str) -> list[Mounted]:
        """All hooks of a name whose tasks have not ended."""
        return [one for one in self._alive if one.hook.name == name]

    def mount(self, *hooks: Hook) -> None:
        """Start hooks, and have them asked; what can be said against it is said before any is started."""
        self.require_here()
        names = Counter([*self.mounted, *(hook.name for hook in hooks)])
        for hook in hooks:
            if not hook.name:
                raise PicohookError("a hook needs a name")
            if names[hook.name] > 1:
                raise PicohookError(f"a hook named {hook.name!r} is mounted already")
        in_order([*self.hooks, *hooks])
        self.seat({**self.mounted, **{hook.name: self.open(hook) for hook in hooks}})

    async def started(self, hook: Hook) -> None:
        """Until it can serve or its first start has failed, which raises if it is `required`."""
        await hook.started()
        if hook.spec.required and hook.error is not None and hook in self.hooks:
            raise HookCrashedError(f"hook {hook.name} is required, and did not start: {hook.error}", hook=hook.name)

    async def unmount(self, name: str) -> None:
        """Take a hook out of every chain at once, then stop it. Calls it is busy with fail."""
        self.require_here()
        mounted = self.mounted[self.find(name).name]
        in_order(hook for hook in self.hooks if hook.name != name)  # raises where another's `after` names it
        self.seat({other: one for other, one in self.mounted.items() if other != name})
        with anyio.CancelScope(shield=True):
            await self._stop(mounted)

    def open(self, hook: Hook) -> Mounted:
        """Start a hook that nobody asks yet."""
        log = self.log.bind(hook=hook.name)
        reactor = self.require_open()
        site = Site(reactor, log, self.timeouts, self._verify, self._complete, self._notice, self.containment)
        hook.open(site)
        mounted = Mounted(hook, anyio.Event())
        self._alive[mounted] = site
        self._tasks.start_soon(self._run, mounted, log, name=f"picohook {hook.name}")
        return mounted

    async def _run(self, mounted: Mounted, log: Log) -> None:
        try:
            await mounted.hook.run()
        except Exception as error:  # noqa: BLE001 - a hook's own task must not end the embedder's
            log.error("its task broke", why=repr(error))
        finally:
            del self._alive[mounted]
            mounted.ended.set()

    def seat(self, mounted: Mapping[str, Mounted], timeouts: Timeouts | None = None) -> None:
        """Have these asked and told, and no others, from now on; with other timeouts, if they change.

        The tuples are replaced, not changed: a chain under way keeps the one it has.
        """
        self.outbox.flush()
        self.mounted = mounted
        self.timeouts = timeouts or self.timeouts
        for site in self._alive.values():
            site.timeouts = self.timeouts
        ordered = in_order(self.hooks)
        asked = seats(ordered, self.timeouts)
        for name, stage in STAGES.items():
            self.chains[name] = self.chains[name].followed(stage, asked[name], self.timeouts)
        self.audiences = audiences(ordered)
        self.owners.provide({hook.name: hook.spec.provides for hook in ordered})

    def retire(self, mounted: Mounted) -> Service[None]:
        """Stop a hook that is asked no longer, once the chains that may still ask it are over."""
        chains = [self.chains[stage] for stage in mounted.hook.spec.asked_at]

        async def drain_and_stop() -> None:
            for one in chains:
                await one.drained()
            await self._stop(mounted)

        return self.begin(drain_and_stop)

    async def _stop(self, *mounted: Mounted) -> None:
        for one in mounted:
            one.hook.stop()
        for one in mounted:
            with anyio.move_on_after(3 * one.hook.spec.grace + LAST_RESORT):
                await one.ended.wait()


def _forked() -> None:
    for crew in tuple(_running):
        crew.forked()


os.register_at_fork(after_in_child=_forked)
