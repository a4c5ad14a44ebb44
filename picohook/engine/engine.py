"""The life of a host: it is entered and left, and hooks are mounted, restarted and unmounted while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..errors import PicohookError
from ..model.spec import HookSpec, Timeouts
from ..observe.log import Log
from .asker import Asker
from .lifecycle import MountedHooks
from .listener import Listeners
from .part import Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from ..hooks.base import Hook, StateChange
    from ..hooks.process import ProcessHook
    from ..model.decisions import Outcome
    from ..model.proof import Proof
    from ..observe.log import Logger
    from ..process.plan import Verify
    from ..process.spawn import HostSpawner, Spawner
    from ..transport.reactor import Reactor
    from .listener import Listener
    from .part import Part
    from .status import Reloaded


class Settings(TypedDict, total=False):
    """The settings that every way to make a host takes by name."""

    logger: Logger | None
    """Gets the host's log. Without it, log lines go to the standard library's logger `picohook`."""
    listeners: Iterable[Listener]
    """The listeners, which see each question, answer and event."""
    parts: Iterable[Part]
    """Further parts of the host while it runs, besides those of extensions."""


class EngineSettings(Settings, total=False):
    """The settings of an engine. A configuration gives those that are added here."""

    timeouts: Timeouts | None
    verify: Verify | None


class Engine(Asker):
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
        verify: Verify | None = None,
        listeners: Iterable[Listener] = (),
        parts: Iterable[Part] = (),
    ) -> None:
        log = Log(logger)
        parts = [*parts]
        told = Listeners([*(listener for part in parts for listener in part.listeners), *listeners], log)
        self.parts = Parts(parts, told)
        """The parts that extensions add to this host."""
        super().__init__(MountedHooks(log, timeouts or Timeouts(), told, self.parts, verify=verify))
        self.on_change: set[Callable[[StateChange | Outcome[Any] | Reloaded | Proof], None]] = told.on_change
        """Functions that are called at once with each state change of a hook, each reload, each proof of life, and a copy of
        each outcome. They must not block."""
        self.on_mounted = self._mounted.on_seated
        """Functions that are called when other hooks are mounted, and after each reload. They must not block, and not raise."""
        self._waiting = [_as_hook(hook) for hook in hooks]

    # Life.

    async def __aenter__(self) -> Self:
        mounted_hooks = self._mounted
        mounted_hooks.require_new()
        self._listeners.open()
        try:
            await mounted_hooks.enter(self._new_spawner)
        except BaseException:
            self._listeners.close()
            raise
        try:
            hooks, self._waiting = self._waiting, []
            await self.parts.open(self)
            await self._begin(mounted_hooks, hooks)
            await self.parts.started()
        except BaseException:
            await self.aclose()
            raise
        return self

    def _new_spawner(self, reactor: Reactor, log: Log) -> HostSpawner:
        """Returns the object that starts the processes of this host."""
        del log
        from ..process.group import GroupSpawner

        return GroupSpawner(reactor)

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        """Mount the hooks that the host was made with, and wait until each can serve or has failed to start."""
        await mounted_hooks.add(*hooks)

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
                await self.parts.aclose(self)

    async def mount(self, hook: Hook | HookSpec) -> None:
        """Add a hook, and wait until it can serve or its first start has failed.

        It belongs to the layer `session`, which is asked last, unless its settings name another layer. Raises `PicohookError`
        if a hook has the name already, `ConfigError` if this host cannot mount it, and `HookCrashedError` if it is `required`
        and does not start.
        """
        made = _as_hook(hook)
        if made.spec.layer is None:
            made.spec = made.spec.model_copy(update={"layer": "session"})
        await self._mounted.add(made)

    async def unmount(self, name: str) -> None:
        """Take a hook out of every chain at once, then stop it. Its calls in flight fail. Raises `PicohookError` without it."""
        self._mounted.require_here()
        await self._mounted.unmount(self._mounted.find(name).name)

    def reset(self, name: str) -> None:
        """Start a hook again after it was given up (FAILED). Raises `PicohookError` if the hook is no process."""
        self._process(name).reset()

    def restart(self, name: str) -> None:
        """End a hook's process and start a new one. Calls in flight fail, and are not replayed. Raises as `reset` does."""
        self._process(name).restart()

    def _process(self, name: str) -> ProcessHook:
        from ..hooks.process import ProcessHook  # hosts without processes do without

        self._mounted.require_here()
        hook = self._mounted.find(name)
        if not isinstance(hook, ProcessHook):
            raise PicohookError(f"hook {name!r} is not a process, and cannot be started again")
        return hook

    @property
    def log(self) -> Log:
        """The host's log."""
        return self._mounted.log

    @property
    def spawner(self) -> Spawner:
        """Starts processes that are contained as hooks are, and end with the host at the latest."""
        spawner = self._mounted.containment
        assert spawner is not None
        return spawner

    def proved(self, proof: Proof) -> None:
        """Tell listeners, `on_change` and observers of a proof of life."""
        self._listeners.show("proved", proof)
        self._listeners.changed(proof)
        if proof.verdict != "denied":
            message = f"{proof.call.tool}: {proof.verdict}: {proof.why}"
            self.emit("error", {"Stage": "proof_of_life", "Message": message}, meta=proof.call.meta)


def _as_hook(given: Hook | HookSpec) -> Hook:
    if isinstance(given, HookSpec):
        made: Hook = given.make()
        return made
    if not hasattr(given, "spec"):
        raise PicohookError(f"hooks are a list of HookSpec and Hook objects, and {given!r} is neither")
    return given
