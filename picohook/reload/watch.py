"""Reloads a host whenever a file of its configuration changes."""

import contextlib
from typing import Any, Protocol

import anyio
from anyio.to_thread import run_sync

from ..engine.status import Reloaded
from ..errors import PicohookError
from ..observe.log import Log
from ..projects.source import Source
from ..wire.extras import needs
from .reloader import Reloader


class Reloadable(Protocol):
    """A host that has a configuration."""

    @property
    def reloader(self) -> Reloader:
        """The host's reloader. Raises `PicohookError` for a host without one."""

    async def reload(self) -> Reloaded:
        """Read the configuration again, and apply it."""


SETTLED = 50
"""Milliseconds without a change after which files count as written."""


def require_watchfiles() -> Any:
    """Returns `watchfiles.awatch`. Raises `PicohookError` if watchfiles is not installed."""
    try:
        from watchfiles import awatch  # an extra
    except ImportError:
        raise PicohookError(needs("watching", "watchfiles", "watch")) from None
    return awatch


async def watch(host: Reloadable) -> None:
    """Reload the host whenever a file of its configuration changes, until cancelled.

    The files are the configuration, and the scripts beside it that its hooks run. A failed reload is logged, and the next
    change starts another one. Raises `PicohookError` for a host without a configuration, without watchfiles, and if the
    files can no longer be watched.
    """
    awatch, source = require_watchfiles(), host.reloader.source
    ending = anyio.Event()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_set_at_the_end, ending)
        try:
            while not ending.is_set():
                await _catch_up(host, source)
                directories = await run_sync(source.directories, abandon_on_cancel=True)
                rounds = awatch(
                    *directories,
                    watch_filter=lambda _, path: source.concerns(path),
                    step=SETTLED,
                    stop_event=ending,
                    yield_on_timeout=True,
                    recursive=False,
                )
                # A round comes with every change, and every few seconds for changes without a notification.
                async with contextlib.aclosing(rounds):
                    async for _ in rounds:
                        await _catch_up(host, source)
                        if await run_sync(source.directories, abandon_on_cancel=True) != directories:
                            break
        except Exception as error:  # raised below, in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise PicohookError(f"the configuration is no longer watched: {failure}")


async def keep_watching(host: Reloadable, log: Log) -> None:
    """Like `watch`, for `Host(watch=True)`: an error is logged, and the host continues."""
    try:
        await watch(host)
    except Exception as error:  # logged
        log.error("no longer watched", why=str(error))


async def _set_at_the_end(ending: anyio.Event) -> None:
    """End the thread that waits for changes, which a cancellation does not end."""
    try:
        await anyio.sleep_forever()
    finally:
        ending.set()


async def _catch_up(host: Reloadable, source: Source) -> None:
    read = -1
    while await run_sync(source.changed, abandon_on_cancel=True) and read != source.read_times:
        read = source.read_times
        try:
            await host.reload()
        except Exception:  # noqa: S110 - the reload has logged it
            pass
