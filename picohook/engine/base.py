"""The life of a host: it is entered and left, and hooks are mounted, restarted and unmounted while it runs."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import PicohookError
from ..ext.proof.prover import Prover
from ..hooks import make_hook
from ..model.spec import HookSpec, Timeouts
from ..observe.log import Log
from .lifecycle import MountedHooks
from .listener import Listeners
from .status import HostStatus
from .used_pauses import USERS_FILE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Self

    from ..hooks.base import Complete, Hook, StateChange
    from ..hooks.process import ProcessHook
    from ..model.decisions import Outcome
    from ..model.payloads import Payload
    from ..model.proof import Proof
    from ..model.spec import ProofOfLife
    from ..model.stages import Stage
    from ..observe.log import Logger
    from ..process.plan import Verify
    from ..process.spawn import Spawner
    from .listener import Listener
    from .session_hooks import SessionHooks
    from .status import Reloaded
    from .tasks import Service
    from .used_pauses import UsedPauses

T = TypeVar("T")
P = TypeVar("P", bound="Payload")

PAUSE_LASTS = 3600.0
"""Seconds in which a paused turn can be resumed."""


class BaseEngine:
    """Mounts hooks, and stops them at its end.

    Entering starts all hooks at once, and waits until each can serve or its first start has failed. A hook that failed is
    started again in the background. If it is `required`, entering raises instead. Leaving stops all hooks: calls in flight
    fail, and waiting events are written. Then each process gets the end of its stdin, TERM, and KILL, with its own `grace`
    between them.
    """

    def __init__(
        self,
        hooks: Iterable[Hook | HookSpec] = (),
        *,
        timeouts: Timeouts | None = None,
        logger: Logger | None = None,
        retry_limit: int = 3,
        verify: Verify | None = None,
        complete: Complete | None = None,
        model_of: Callable[[HookSpec], Complete | None] | None = None,
        listeners: Iterable[Listener] = (),
        used_pauses: UsedPauses | None = USERS_FILE,
        pause_lasts: float = PAUSE_LASTS,
        proof_of_life: ProofOfLife | None = None,
    ) -> None:
        if not 0 < pause_lasts < math.inf:
            raise PicohookError(f"`pause_lasts` is {pause_lasts}, and has to be a number of seconds")
        self.retry_limit = retry_limit
        self.used_pauses = used_pauses
        self.pause_lasts = pause_lasts
        self.is_session_view = False
        """Whether `session_view` made it."""
        self.ended_by: Outcome[Any] | None = None
        """In a session's view: the hard abort that ended the session."""
        self.on_change: set[Callable[[StateChange | Outcome[Any] | Reloaded | Proof], None]] = set()
        """Functions that are called at once with each state change of a hook, each reload, each proof of life, and a copy of
        each outcome. They must not block."""
        mounted_hooks = MountedHooks(
            Log(logger),
            timeouts or Timeouts(),
            verify=verify,
            complete=complete,
            model_of=model_of,
            notice=_weakly(self._changed),
        )
        self._mounted: MountedHooks | SessionHooks = mounted_hooks
        self.on_mounted = mounted_hooks.on_seated
        """Functions that are called when other hooks are mounted, and after each reload. They must not block, and not raise."""
        self._prover = Prover(mounted_hooks, proof_of_life, _weakly(self._proved))
        self._listeners = Listeners(listeners, self._mounted.log)
        if self._listeners.all:
            mounted_hooks.told = self._listeners.told
            mounted_hooks.tap = self._listeners.tap
        self._waiting = [_as_hook(hook) for hook in hooks]

    # Life.

    async def __aenter__(self) -> Self:
        mounted_hooks = self._mounted
        assert isinstance(mounted_hooks, MountedHooks)  # a session's view is not entered
        mounted_hooks.require_new()
        self._listeners.open()
        try:
            await mounted_hooks.enter()
        except BaseException:
            self._listeners.close()
            raise
        try:
            hooks, self._waiting = self._waiting, []
            await self._begin(mounted_hooks, hooks)
            self._prover.begin()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        """Mount the hooks that the host was made with, and wait until each can serve or has failed to start."""
        mounted_hooks.mount(*hooks)
        for hook in hooks:
            await mounted_hooks.started(hook)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop all hooks. Leaving the host's block does the same. Closing twice is fine.

        Any task of the host's event loop may do it.
        """
        ended = True
        try:
            ended = await self._mounted.leave()
        finally:
            if ended:
                self._listeners.close()

    async def mount(self, hook: Hook | HookSpec) -> None:
        """Add a hook, and wait until it can serve or its first start has failed.

        It belongs to the layer `session`, which is asked last, unless its settings name another layer.
        """
        made = _as_hook(_in_session_layer(hook))
        self._mounted.mount(made)
        try:
            await self._mounted.started(made)
        except BaseException:
            if made in self.hooks:
                await self.unmount(made.name)
            raise

    async def unmount(self, name: str) -> None:
        """Take a hook out of every chain at once, then stop it. Its calls in flight fail."""
        await self._mounted.unmount(name)

    async def reload(self) -> Reloaded:
        """Read the configuration again. Raises `PicohookError` for a host without one."""
        raise PicohookError("only a running host that was made by `Host.from_config` can be reloaded")

    def reset(self, name: str) -> None:
        """Start a hook again after it was given up (FAILED)."""
        self._process(name).reset()

    def restart(self, name: str) -> None:
        """End a hook's process and start a new one. Calls in flight fail, and are not replayed."""
        self._process(name).restart()

    def _process(self, name: str) -> ProcessHook:
        from ..hooks.process import ProcessHook  # noqa: PLC0415 - hosts without processes do without

        self._mounted.require_here()
        hook = self._mounted.find(name)
        if not isinstance(hook, ProcessHook):
            raise PicohookError(f"hook {name!r} is not a process, and cannot be started again")
        return hook

    def status(self) -> HostStatus:
        """The state of the host and of each hook."""
        hooks = tuple(hook.status() for hook in self.hooks)
        held = self._mounted.containment
        tier, lacks = ("none", {}) if held is None else (held.tier or "none", dict(held.unable))
        return HostStatus(hooks, tier, self._mounted.log.failures, lacks, self._prover.status())

    def begin_task(self, work: Callable[[], Awaitable[T]]) -> Service[T]:
        """Do something in a task of the host's own. It continues if its caller is cancelled, until the host ends."""
        return self._mounted.begin(work)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are mounted."""
        return self._mounted.hooks

    @property
    def spawner(self) -> Spawner:
        """Starts processes that are contained as hooks are, and end with the host at the latest."""
        spawner = self._mounted.containment
        assert spawner is not None
        return spawner

    @property
    def inherited(self) -> bool:
        """Whether this process is a child that the host's own process forked while the host ran."""
        return self._mounted.inherited

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of hooks that set none of their own."""
        return self._mounted.timeouts

    def asked_at(self, stage: str) -> tuple[Hook, ...]:
        """The hooks that are asked at a stage, in order."""
        return tuple(seat.hook for seat in self._mounted.generations[stage].seats)

    def may_ask(self, stage: Stage[P], payload: P) -> tuple[Hook, ...]:
        """The hooks that may be asked at a stage about this payload, whose fields that can be edited are not known yet."""
        return tuple(seat.hook for seat in self._mounted.generations[stage.name].seats if seat.may_want(payload))

    def _proved(self, proof: Proof) -> None:
        """Tell listeners and `on_change` of a proof of life."""
        self._listeners.proved(proof)
        self._changed(proof)

    def _changed(self, change: StateChange | Outcome[Any] | Reloaded | Proof) -> None:
        for call in tuple(self.on_change):
            try:
                call(change)
            except Exception as error:  # noqa: BLE001 - it must not hurt the host
                self._mounted.log.warning("a function of on_change failed", why=repr(error))


def _weakly(method: Callable[[T], None]) -> Callable[[T], None]:
    """Returns a call of the method that holds its object weakly. So the object is freed without the garbage collector."""
    weak = weakref.WeakMethod(method)

    def call(about: T) -> None:
        strong = weak()
        if strong is not None:
            strong(about)

    return call


def _as_hook(given: Hook | HookSpec) -> Hook:
    if isinstance(given, HookSpec):
        return make_hook(given)
    if not hasattr(given, "spec"):
        raise PicohookError(f"hooks are a list of HookSpec and Hook objects, and {given!r} is neither")
    return given


def _in_session_layer(given: Hook | HookSpec) -> Hook | HookSpec:
    """The hook or spec, in the layer `session` unless it names another."""
    spec = given if isinstance(given, HookSpec) else given.spec
    if spec.layer is not None:
        return given
    placed = spec.model_copy(update={"layer": "session"})
    if isinstance(given, HookSpec):
        return placed
    given.spec = placed
    return given
