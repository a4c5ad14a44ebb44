"""Reloading whenever a file of the configuration has changed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.to_thread import run_sync

from ...errors import PicohookError

if TYPE_CHECKING:
    from ...engine.status import Reloaded
    from ...observe.log import Log
    from .source import Source
    from .takeover import Reloader


class Reloadable(Protocol):
    """A host that has a configuration."""

    @property
    def reloader(self) -> Reloader:
        """What reads the configuration again."""

    async def reload(self) -> Reloaded:
        """Take over what the configuration says by now."""


SETTLED = 50
"""Milliseconds of quiet after which files count as written."""


def require_watchfiles() -> Any:
    """`watchfiles.awatch`, or an error that says where to get it."""
    try:
        from watchfiles import awatch  # noqa: PLC0415 - an extra, for those who watch
    except ImportError:
        raise PicohookError("watching needs watchfiles: pip install 'picohook[watch]'") from None
    return awatch


async def watch(host: Reloadable) -> None:
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
                places = await run_sync(source.directories, abandon_on_cancel=True)
                rounds = awatch(
                    *places, watch_filter=None, step=SETTLED, stop_event=ending, yield_on_timeout=True, recursive=False
                )
                # A round comes with every change in there, and every few seconds: what no notice came of is seen then.
                async with contextlib.aclosing(rounds):
                    async for _ in rounds:
                        await _catch_up(host, source)
                        if await run_sync(source.directories, abandon_on_cancel=True) != places:
                            break
        except Exception as error:  # noqa: BLE001 - it is raised below, and in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise PicohookError(f"the configuration is watched no longer: {failure}")


async def keep_watching(host: Reloadable, log: Log) -> None:
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


async def _catch_up(host: Reloadable, source: Source) -> None:
    read = -1
    while await run_sync(source.changed, abandon_on_cancel=True) and read != source.read_times:
        read = source.read_times
        try:
            await host.reload()
        except Exception:  # noqa: BLE001, S110 - the reload has logged it
            pass
