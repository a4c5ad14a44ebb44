"""A configuration that changed, taken over by a host that goes on serving.

What did not change goes on as it is. What changed is started beside the old one, and takes its place when it is ready: all
seats change hands in one step, so that at no time neither the old hook nor the new one is asked. The chains that began
before that step may still ask the old one; once they are over it is *drained*, and is stopped.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread

from .errors import ConfigError, HookCrashedError, HookTimeoutError, PicohookError, Problem
from .hooks import make_hook
from .hooks.base import Hook, HookStatus
from .roster import in_order
from .underway import Mounted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from .config import Config
    from .config.layers import Layers
    from .decisions import Decision
    from .events import Event
    from .hooks.base import Question
    from .host import Host
    from .log import Log
    from .spec import HookSpec, Timeouts
    from .underway import Service

EVENTS_HELD = 1024
"""Events that wait for a hook whose place is held; then the oldest give way."""
SETTLED = 50
"""Milliseconds of quiet after which files count as written."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did: each hook of the new configuration is in one of `added`, `changed`, `kept` and `failed`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Those that did not start, and why. Where there was an old one, it stays; else the new one is started again."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        names = {kind: list(getattr(self, kind)) for kind in ("added", "removed", "changed", "kept")}
        return {**names, "failed": dict(self.failed)}


@dataclass(frozen=True, slots=True)
class Ground:
    """What of a host a reload works with."""

    log: Log
    mounted: Callable[[], Mapping[str, Mounted]]
    open: Callable[[Hook], Mounted]
    """Starts a hook that nobody asks yet."""
    seat: Callable[[dict[str, Mounted], Timeouts | None], None]
    """Has these asked and no others, from now on; with other timeouts, if they change."""
    retire: Callable[[Mounted], object]
    """Stops a hook that is asked no longer, once it is drained."""
    alive: Callable[[str], list[Mounted]]
    """All hooks of a name whose tasks have not ended."""
    begin: Callable[[Callable[[], Awaitable[str | None]]], Service[str | None]]
    """Does something in a task of its own."""


# Reading.

Stamp = tuple[int, ...] | None
"""What tells one state of a file from another."""


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


class Source:
    """A configuration that can be read again, and what its files were like when it was read last.

    `load` reads one file, or all layers; `paths` are files that it is known to read.
    """

    def __init__(self, load: Callable[[], Config | Layers], *paths: str | os.PathLike[str]) -> None:
        self._load = load
        self._configs: tuple[Config, ...] = ()
        self._stamps: dict[str, Stamp] = {os.path.abspath(path): None for path in paths}
        self.read_times = 0
        self.prints: dict[str, object] = {}
        """For each hook what it is made of: its settings, and the files beside the configuration that it runs."""

    def read(self) -> Config | Layers:
        """The configuration as it is now. Raises `ConfigError`, also where it needs trust and has none."""
        from .config import Config, trust  # noqa: PLC0415 - hosts built in code do without

        # Before anything is read: what changes from here on is a change.
        before = self._stamps = {path: _stamp(path) for path in self._stamps}
        self.read_times += 1
        read = self._load()
        configs = (read,) if isinstance(read, Config) else read.configs
        for config in configs:
            trust.require_trust(config)
        scripts = {
            spec.name: [path for config in configs for path in trust.scripts(config, spec)] for spec in read.hooks
        }
        paths = {*(str(config.path) for config in configs), *(path for named in scripts.values() for path in named)}
        self._stamps = {path: before[path] if path in before else _stamp(path) for path in paths}
        self.prints = {
            spec.name: (spec.fingerprint, [self._stamps[path] for path in scripts[spec.name]]) for spec in read.hooks
        }
        self._configs = configs
        return read

    def verify(self, spec: HookSpec) -> None:
        """Raise `TrustError` unless what was read last is trusted still: for the `verify` of a host."""
        from .config import trust  # noqa: PLC0415

        for config in self._configs:
            if len(self._configs) == 1 or spec.source == str(config.path):
                trust.still_trusted(config, spec)

    def changed(self) -> bool:
        """Whether a file is not what it was when it was read."""
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())

    def directories(self) -> set[str]:
        """Where to look for changes: where the files are, and where links say that they are."""
        places = {os.path.dirname(path) for name in self._stamps for path in (name, os.path.realpath(name))}
        return {place for place in places if os.path.isdir(place)}


# Taking over.


class _Ours(NamedTuple):
    """A hook that came from the configuration, and what it was made of."""

    hook: Hook
    made_of: object


class Reloader:
    """Makes a host's hooks those that its configuration names. Hooks that were mounted in code are left alone."""

    def __init__(self, source: Source, hooks: Iterable[Hook], ground: Ground) -> None:
        self.source = source
        self._ground = ground
        self._lock = anyio.Lock()
        self._ours = {hook.name: _Ours(hook, source.prints[hook.name]) for hook in hooks}

    async def reload(self) -> Reloaded:
        """Read the configuration, and take it over. What raises has changed nothing."""
        async with self._lock:
            log = self._ground.log
            try:
                config = await anyio.to_thread.run_sync(self.source.read)
                done = await self._take_over(config, self.source.prints)
            except Exception as error:
                log.error("not reloaded: what ran before goes on", why=str(error))
                raise
            for name, why in done.failed.items():
                log.error("does not start with its new settings", hook=name, why=why)
            names = {kind: ", ".join(getattr(done, kind)) for kind in ("added", "removed", "changed", "kept")}
            log.info("reloaded", **names)
            return done

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
                    coming[name] = self._ground.open(hook)
            failed = {name: why for name, one in coming.items() if (why := await _failure(one.hook))}
            for name in failed.keys() - before.keys():
                _require_optional(wanted[name], failed[name])
            # What code unmounted in the meantime stays so, and what it mounted may be in the way. From here on nothing waits.
            ours = self._running()
            stay = kept | (failed.keys() & before.keys())
            for name in stay - ours.keys():
                del wanted[name]
            self._check(wanted)
        except BaseException:
            for one in coming.values():
                one.hook.stop()
            raise
        places = {name: Mounted(_Place(wanted[name]), _set()) for name in held}
        self._swap(wanted, {name: ours[name] for name in stay & ours.keys()}, coming | places, config.timeouts)
        for name in coming.keys() & wanted.keys() - stay:
            self._ours[name] = _Ours(wanted[name], prints[name])
        filling = {
            name: self._ground.begin(
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
        seated = {name: one for name, one in self._ground.mounted().items() if name not in ours}
        seated |= {name: staying.get(name) or coming[name] for name in wanted}
        for name, one in staying.items():
            one.hook.spec = _in_place_of(wanted[name].spec, one.hook.spec)
        self._ground.seat(seated, timeouts)
        for name, one in ours.items():
            if seated.get(name) is not one:
                self._ground.retire(one)
        for name, one in coming.items():
            if seated.get(name) is not one:
                one.hook.stop()

    async def _fill(self, held: Mounted, new: _Ours, old: Mounted | None) -> str | None:
        """Start a hook in the place that is held for it, when no other of its name runs; or if it fails, the old one again.

        Why it failed.
        """
        hook, ground = new.hook, self._ground
        name = hook.name
        for one in ground.alive(name):
            await one.ended.wait()
        mounted = ground.open(hook)
        why = await _failure(hook)
        if why and old is not None:
            hook.stop()
            await mounted.ended.wait()
            hook = make_hook(_in_place_of(hook.spec, old.hook.spec))
            new = _Ours(hook, self._ours[name].made_of)
            mounted = ground.open(hook)
        place = held.hook
        assert isinstance(place, _Place)
        place.fill(hook)
        seated = ground.mounted()
        if seated.get(name) is held:
            ground.seat({**seated, name: mounted}, None)
            self._ours[name] = new
        else:  # unmounted in the meantime, in code
            hook.stop()
        return why

    def _running(self) -> dict[str, Mounted]:
        """Those of the configuration's hooks that are still mounted."""
        return {
            name: one
            for name, one in self._ground.mounted().items()
            if name in self._ours and self._ours[name].hook is one.hook
        }

    def _check(self, wanted: Mapping[str, Hook]) -> None:
        """Whether these hooks can be mounted beside those that code mounted. Raises `ConfigError`."""
        ours = self._running()
        others = [one.hook for name, one in self._ground.mounted().items() if name not in ours]
        taken = [wanted[hook.name] for hook in others if hook.name in wanted]
        if taken:
            why = "is the name of a hook that was mounted in code"
            raise ConfigError(
                Problem(hook.spec.source, f"hooks.{hook.name}", why, "give it another one") for hook in taken
            )
        in_order([*others, *wanted.values()])

    def _has_to_wait(self, hook: Hook) -> bool:
        alive = self._ground.alive(hook.name)
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


class _Place(Hook):
    """The place of a hook that starts when the one before it has ended. Questions and events wait for it here."""

    def __init__(self, hook: Hook) -> None:
        super().__init__(hook.spec)
        self.in_process = hook.in_process
        self.patient = hook.patient
        self.metrics = hook.metrics
        self._hook: Hook | None = None
        self._filled = anyio.Event()
        self._events: deque[Event] = deque(maxlen=EVENTS_HELD)

    def fill(self, hook: Hook) -> None:
        """Here it is."""
        self._hook = hook
        for event in self._events:
            hook.notify(event)
        self._filled.set()

    async def handle(self, question: Question[Any]) -> Decision:
        with anyio.CancelScope(deadline=question.deadline):
            await self._filled.wait()
        if self._hook is not None:
            return await self._hook.handle(question)
        if self._filled.is_set():
            raise HookCrashedError("it is being stopped", hook=self.name)
        raise HookTimeoutError("the one before it did not make room in time", hook=self.name)

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


# Watching.


def require_watchfiles() -> Any:
    """`watchfiles.awatch`, or an error that says where to get it."""
    try:
        from watchfiles import awatch  # noqa: PLC0415 - an extra, for those who watch
    except ImportError:
        raise PicohookError("watching needs watchfiles: pip install 'picohook[watch]'") from None
    return awatch


async def watch(host: Host) -> None:
    """Reload the host whenever a file of its configuration has changed, until cancelled.

    The files are the configuration, and the scripts beside it that its hooks run. What cannot be taken over is logged, by
    the reload, and the next change is another try.
    """
    awatch, source = require_watchfiles(), host.reloader.source
    ending = anyio.Event()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_at_the_end, ending)
        try:
            while not ending.is_set():
                await _catch_up(host, source)
                places = source.directories()
                rounds = awatch(
                    *places, watch_filter=None, step=SETTLED, stop_event=ending, yield_on_timeout=True, recursive=False
                )
                # A round comes with every change in there, and every few seconds: what no notice came of is seen then.
                async with contextlib.aclosing(rounds):
                    async for _ in rounds:
                        await _catch_up(host, source)
                        if source.directories() != places:
                            break
        except Exception as error:  # noqa: BLE001 - it is raised below, and in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise PicohookError(f"the configuration is watched no longer: {failure}")


async def keep_watching(host: Host, log: Log) -> None:
    """The same, for a host that does it by itself."""
    try:
        await watch(host)
    except Exception as error:  # noqa: BLE001 - the host goes on
        log.error("no longer watched", why=str(error))


async def _set_at_the_end(ending: anyio.Event) -> None:
    """The thread that waits for changes is not ended by a cancellation, but by this."""
    try:
        await anyio.sleep_forever()
    finally:
        ending.set()


async def _catch_up(host: Host, source: Source) -> None:
    read = -1
    while source.changed() and read != source.read_times:
        read = source.read_times
        try:
            await host.reload()
        except Exception:  # noqa: BLE001, S110 - the reload has logged it
            pass
