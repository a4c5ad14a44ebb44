"""Making a running host's hooks those that its configuration names by now."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from ...engine.order import in_order
from ...engine.status import Reloaded
from ...engine.tasks import Mounted
from ...errors import ConfigError, HookCrashedError, Problem
from ...hooks import make_hook
from .held_place import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...engine.mounted import MountedHooks
    from ...hooks.base import Hook
    from ...model.spec import HookSpec, Timeouts
    from .. import Config
    from ..layers import Layers
    from .source import Source


class _Ours(NamedTuple):
    """A hook that came from the configuration, and what it was made of."""

    hook: Hook
    made_of: object


class Reloader:
    """Makes a host's hooks those that its configuration names. Hooks that were mounted in code are left alone."""

    def __init__(self, source: Source, hooks: Iterable[Hook], mounted_hooks: MountedHooks) -> None:
        self.source = source
        self._mounted = mounted_hooks
        self._lock = anyio.Lock()
        self._ours = {hook.name: _Ours(hook, source.prints[hook.name]) for hook in hooks}
        self._warn()

    async def reload(self) -> Reloaded:
        """Read the configuration, and take it over. What raises has changed nothing."""
        async with self._lock:
            log = self._mounted.log
            try:
                config = await anyio.to_thread.run_sync(self.source.read, abandon_on_cancel=True)
                done = await self._take_over(config, self.source.prints)
            except Exception as error:
                log.error("not reloaded: what ran before goes on", why=str(error))
                raise
            for name, why in done.failed.items():
                log.error("does not start with its new settings", hook=name, why=why)
            names = {kind: ", ".join(getattr(done, kind)) for kind in ("added", "removed", "changed", "kept")}
            log.info("reloaded", **names)
            self._warn()
            return done

    def _warn(self) -> None:
        for doubt in self.source.doubts:
            self._mounted.log.warning("the configuration may not mean what it says", what=str(doubt))

    async def _take_over(self, config: Config | Layers, prints: Mapping[str, object]) -> Reloaded:
        wanted = {spec.name: make_hook(spec) for spec in config.hooks}
        self._check(wanted)
        before = self._running()
        kept = {name for name in wanted if name in before and self._ours[name].made_of == prints[name]}
        held = {name for name in wanted if name not in kept and self._has_to_wait(wanted[name])}
        coming: dict[str, Mounted] = {}
        try:
            for name, hook in wanted.items():
                if name not in kept | held:
                    coming[name] = self._mounted.open(hook)
            failed = {name: why for name, one in coming.items() if (why := await _failure(one.hook))}
            for name in failed.keys() - before.keys():
                _require_optional(wanted[name], failed[name])
            # What code unmounted in the meantime stays so, and what it mounted may be in the way. From here on nothing waits.
            self._mounted.require_open()
            ours = self._running()
            stay = kept | (failed.keys() & before.keys())
            for name in stay - ours.keys():
                del wanted[name]
            self._check(wanted)
        except BaseException:
            for one in coming.values():
                one.hook.stop()
            raise
        places = {name: Mounted(Place(wanted[name]), _set()) for name in held}
        self._swap(wanted, {name: ours[name] for name in stay & ours.keys()}, coming | places, config.timeouts)
        for name in coming.keys() & wanted.keys() - stay:
            self._ours[name] = _Ours(wanted[name], prints[name])
        filling = {
            name: self._mounted.begin(
                functools.partial(self._fill, place, _Ours(wanted[name], prints[name]), ours.get(name))
            )
            for name, place in places.items()
        }
        failed |= {name: why for name, service in filling.items() if (why := await service.result())}
        new = [name for name in wanted if name not in kept and name not in failed]
        return Reloaded(
            added=tuple(name for name in new if name not in before),
            removed=tuple(name for name in before if name not in wanted),
            changed=tuple(name for name in new if name in before),
            kept=tuple(name for name in wanted if name in kept),
            failed=failed,
        )

    def _swap(
        self,
        wanted: Mapping[str, Hook],
        staying: Mapping[str, Mounted],
        coming: Mapping[str, Mounted],
        timeouts: Timeouts | None,
    ) -> None:
        """The one step in which seats change hands."""
        ours = self._running()
        seated = {name: one for name, one in self._mounted.by_name.items() if name not in ours}
        seated |= {name: staying.get(name) or coming[name] for name in wanted}
        for name, one in staying.items():
            one.hook.spec = _in_place_of(wanted[name].spec, one.hook.spec)
        self._mounted.seat(seated, timeouts)
        for name, one in ours.items():
            if seated.get(name) is not one:
                self._mounted.retire(one)
        for name, one in coming.items():
            if seated.get(name) is not one:
                one.hook.stop()

    async def _fill(self, held: Mounted, new: _Ours, old: Mounted | None) -> str | None:
        """Start a hook in the place that is held for it, when no other of its name runs; or if it fails, the old one again.

        Why it failed.
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
            hook = make_hook(_in_place_of(hook.spec, old.hook.spec))
            new = _Ours(hook, self._ours[name].made_of)
            mounted = mounted_hooks.open(hook)
        place = held.hook
        assert isinstance(place, Place)
        place.fill(hook)
        mounted_hooks.require_open()
        seated = mounted_hooks.by_name
        if seated.get(name) is held:
            mounted_hooks.seat({**seated, name: mounted}, None)
            self._ours[name] = new
        else:  # unmounted in the meantime, in code
            hook.stop()
        return why

    def _running(self) -> dict[str, Mounted]:
        """Those of the configuration's hooks that are still mounted."""
        return {
            name: one
            for name, one in self._mounted.by_name.items()
            if name in self._ours and self._ours[name].hook is one.hook
        }

    def _check(self, wanted: Mapping[str, Hook]) -> None:
        """Whether these hooks can be mounted beside those that code mounted. Raises `ConfigError`."""
        ours = self._running()
        others = [one.hook for name, one in self._mounted.by_name.items() if name not in ours]
        taken = [wanted[hook.name] for hook in others if hook.name in wanted]
        if taken:
            why = "is the name of a hook that was mounted in code"
            raise ConfigError(
                Problem(hook.spec.source, f"hooks.{hook.name}", why, "give it another one") for hook in taken
            )
        in_order([*others, *wanted.values()])
        self._mounted.require_models(wanted.values())

    def _has_to_wait(self, hook: Hook) -> bool:
        alive = self._mounted.alive(hook.name)
        return any(not (hook.spec.overlap and one.hook.spec.overlap) for one in alive)


async def _failure(hook: Hook) -> str | None:
    """Why a hook did not start."""
    await hook.started()
    return None if hook.error is None else str(hook.error)


def _require_optional(hook: Hook, why: str) -> None:
    if hook.spec.required:
        raise HookCrashedError(f"hook {hook.name} is required, and did not start: {why}", hook=hook.name)


def _in_place_of(spec: HookSpec, old: HookSpec) -> HookSpec:
    """The old settings, asked when the new ones would be: the order is always the new configuration's."""
    place = {"layer": spec.layer, "source": spec.source, "after": spec.after, "priority": spec.priority}
    return old.model_copy(update=place)


def _set() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event
