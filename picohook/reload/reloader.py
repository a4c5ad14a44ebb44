"""Reloads a running host's configuration."""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from ..engine.arrangement import Mounted
from ..engine.lifecycle import MountedHooks
from ..engine.order import in_order
from ..engine.status import Reloaded
from ..errors import ConfigError, HookCrashedError, Problem
from ..hooks.base import Hook, HookStatus, Question
from ..model.decisions import Decision
from ..model.events import Event
from ..model.spec import HookSpec, Timeouts
from ..projects.layers import Layers
from ..projects.source import Source

_KINDS = ("added", "removed", "changed", "kept")
EVENTS_HELD = 1024
"""Events that may wait for a hook. When there are more, the oldest are dropped."""


class _Configured(NamedTuple):
    """A hook that came from the configuration."""

    hook: Hook
    fingerprint: object


class Placeholder(Hook):
    """A placeholder for a hook that starts when the hook before it has ended. Questions and events wait here."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(hook.spec)
        self.in_process = hook.in_process
        self.waits_for_person = hook.waits_for_person
        self.metrics = hook.metrics
        self._hook: Hook | None = None
        self._filled = anyio.Event()
        self._events: deque[Event] = deque(maxlen=EVENTS_HELD)

    def fill(self, hook: Hook) -> None:
        """Give the started hook everything that waits."""
        self._hook = hook
        for event in self._events:
            hook.notify(event)
        self._filled.set()

    async def handle(self, question: Question[Any]) -> Decision:
        with question.time_limit("timed out waiting for the old hook to end"):
            await self._filled.wait()
        if self._hook is None:
            raise HookCrashedError("it is being stopped", hook=self.name)
        return await self._hook.handle(question)

    def notify(self, event: Event) -> None:
        if self._hook is None:
            self._events.append(event)
        else:
            self._hook.notify(event)

    async def flushed(self, deadline: float) -> bool:
        with anyio.CancelScope(deadline=deadline):
            await self._filled.wait()
        return self._hook is not None and await self._hook.flushed(deadline)

    def stop(self) -> None:
        self._filled.set()

    def status(self) -> HookStatus:
        return replace(super().status(), state="starting")


class Reloader:
    """Gives a host the hooks that its configuration names now. Hooks that were mounted in code stay as they are."""

    def __init__(
        self,
        source: Source,
        hooks: Iterable[Hook],
        mounted_hooks: MountedHooks,
        follow: Callable[[Layers], AbstractAsyncContextManager[None]],
    ) -> None:
        self.source = source
        self._mounted = mounted_hooks
        self._follow = follow
        """A block in which a configuration is taken over. What else the host has follows at its end."""
        self._lock = anyio.Lock()
        self._configured = {hook.name: _Configured(hook, source.fingerprints[hook.name]) for hook in hooks}
        self._warn()

    async def reload(self) -> Reloaded:
        """Read the configuration, and apply it. If this raises, nothing has changed."""
        async with self._lock:
            log = self._mounted.log
            try:
                layers = await anyio.to_thread.run_sync(self.source.read, abandon_on_cancel=True)
                async with self._follow(layers):
                    done = await self._take_over(layers, self.source.fingerprints)
                self.source.layers = layers
            except Exception as error:
                log.error("not reloaded: the old configuration stays", why=str(error))
                raise
            for name, why in done.failed.items():
                log.error("does not start with its new settings", hook=name, why=why)
            log.info("reloaded", **{kind: ", ".join(getattr(done, kind)) for kind in _KINDS})
            self._warn()
            return done

    def _warn(self) -> None:
        for warning in self.source.layers.warnings:
            self._mounted.log.warning("configuration warning", what=str(warning))

    async def _take_over(self, layers: Layers, fingerprints: Mapping[str, object]) -> Reloaded:
        wanted = {spec.name: spec.make() for spec in layers.hooks}
        self._check(wanted)
        before = {name: self._configured[name].fingerprint for name in self._running()}
        kept = [name for name, one in fingerprints.items() if name in before and before[name] == one]
        new = [name for name in fingerprints if name not in kept]
        alive = {name: [one.hook.spec.overlap for one in self._mounted.alive(name)] for name in new}
        waiting = {name for name in new if alive[name] and not (wanted[name].spec.overlap and all(alive[name]))}
        starting: dict[str, Mounted] = {}
        try:
            for name in new:
                if name not in waiting:
                    starting[name] = self._mounted.open(wanted[name])
            failed = {name: why for name, one in starting.items() if (why := await _failure(one.hook))}
            for name in failed.keys() - before.keys():
                if wanted[name].spec.required:
                    raise HookCrashedError(f"hook {name} is required, and did not start: {failed[name]}", hook=name)
            # While hooks started, code may have unmounted some, and mounted others. From here on nothing is awaited.
            self._mounted.require_open()
            running = self._running()
            staying = {*kept, *(failed.keys() & before.keys())}
            for name in staying - running.keys():
                del wanted[name]
            self._check(wanted)
        except BaseException:
            for one in starting.values():
                one.hook.stop()
            raise
        placeholders = {name: Mounted(Placeholder(wanted[name])) for name in waiting}  # without tasks
        for one in placeholders.values():
            one.ended.set()
        stay = {name: running[name] for name in staying & running.keys()}
        self._swap(wanted, stay, starting | placeholders, layers.timeouts)
        configured = {name: _Configured(wanted[name], fingerprints[name]) for name in wanted.keys() - staying}
        self._configured |= {name: configured[name] for name in starting.keys() & configured.keys()}
        # Hooks that had to wait start now, as their old ones end.
        filling = {
            name: self._mounted.begin(functools.partial(self._fill, placeholder, configured[name], running.get(name)))
            for name, placeholder in placeholders.items()
        }
        failed |= {name: why for name, service in filling.items() if (why := await service.result())}
        stays = {name for name in wanted if name not in failed}
        return Reloaded(
            added=tuple(name for name in new if name in stays and name not in before),
            removed=tuple(name for name in before if name not in wanted),
            changed=tuple(name for name in new if name in stays and name in before),
            kept=tuple(name for name in kept if name in wanted),
            failed=failed,
        )

    def _swap(
        self,
        wanted: Mapping[str, Hook],
        staying: Mapping[str, Mounted],
        coming: Mapping[str, Mounted],
        timeouts: Timeouts | None,
    ) -> None:
        """Replace all hooks in one step, so that every call finds either the old hook or the new one."""
        ours = self._running()
        seated = {name: one for name, one in self._mounted.by_name.items() if name not in ours}
        seated |= {name: staying.get(name) or coming[name] for name in wanted}
        for name, one in staying.items():
            one.hook.spec = _without_restart(wanted[name].spec, one.hook.spec)
        self._mounted.seat(seated, timeouts)
        for name, one in ours.items():
            if seated.get(name) is not one:
                self._mounted.retire(one)
        for name, one in coming.items():
            if seated.get(name) is not one:
                one.hook.stop()

    async def _fill(self, held: Mounted, new: _Configured, old: Mounted | None) -> str | None:
        """Start a hook once no other of its name runs, and replace its placeholder with it.

        If it fails, starts the old hook again, and returns why.
        """
        hook, mounted_hooks = new.hook, self._mounted
        name = hook.name
        for one in mounted_hooks.alive(name):
            await one.ended.wait()
        mounted = mounted_hooks.open(hook)
        why = await _failure(hook)
        if why and old is not None:
            hook.stop()
            await mounted.ended.wait()
            hook = _without_restart(hook.spec, old.hook.spec).make()
            new = _Configured(hook, self._configured[name].fingerprint)
            mounted = mounted_hooks.open(hook)
        placeholder = held.hook
        assert isinstance(placeholder, Placeholder)
        placeholder.fill(hook)
        mounted_hooks.require_open()
        seated = mounted_hooks.by_name
        if seated.get(name) is held:
            mounted_hooks.seat({**seated, name: mounted}, None)
            self._configured[name] = new
        else:  # unmounted in the meantime, in code
            hook.stop()
        return why

    def _running(self) -> dict[str, Mounted]:
        """The configuration's hooks that are still mounted."""
        return {
            name: one
            for name, one in self._mounted.by_name.items()
            if name in self._configured and self._configured[name].hook is one.hook
        }

    def _check(self, wanted: Mapping[str, Hook]) -> None:
        """Raise `ConfigError` if these hooks cannot be mounted beside those that code mounted."""
        ours = self._running()
        others = [one.hook for name, one in self._mounted.by_name.items() if name not in ours]
        taken = [wanted[hook.name] for hook in others if hook.name in wanted]
        if taken:
            raise ConfigError(
                Problem(
                    hook.spec.source,
                    f"hooks.{hook.name}",
                    "is the name of a hook that was mounted in code",
                    "give it another name",
                )
                for hook in taken
            )
        in_order([*others, *wanted.values()])
        self._mounted.require_usable(wanted.values())


async def _failure(hook: Hook) -> str | None:
    """The reason why a hook did not start; None if it did."""
    await hook.started()
    return None if hook.error is None else str(hook.error)


def _without_restart(spec: HookSpec, old: HookSpec) -> HookSpec:
    """The old settings, with those of the new configuration that need no new start: the order, and the canary."""
    changed = ("layer", "source", "depth", "tables", "after", "priority", "canary")
    return old.model_copy(update={name: getattr(spec, name) for name in changed})
