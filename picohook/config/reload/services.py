"""Runs what a configuration asks for besides hooks: applying bundles, and publishing the host's status."""

from __future__ import annotations

import functools
import secrets
import time
from typing import TYPE_CHECKING, Any

import anyio

from ...transport.nats.heartbeat import Heartbeat
from ..bundles import KeptBundle, require_bundle
from .central import BundleUpdates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ...engine.status import Reloaded
    from ...engine.tasks import Service
    from ...model.spec import NatsSettings
    from ...observe.log import Log
    from ...transport.nats.bundle import Bundle
    from ...transport.nats.connections import Connections
    from .source import Source


class ConfigServices:
    """Runs the tasks of a host that its configuration asks for. `follow` replaces those whose settings have changed."""

    def __init__(
        self,
        source: Source,
        connections: Connections,
        log: Log,
        *,
        begin: Callable[[Callable[[], Awaitable[None]]], Service[None]],
        reload: Callable[[Bundle], Awaitable[Reloaded]],
        status: Callable[[], Mapping[str, Any]] | None,
    ) -> None:
        """`begin` begins a task, `reload` applies a bundle, and `status` returns what to publish; None publishes nothing."""
        self._source = source
        self._connections = connections
        self._log = log
        self._begin = begin
        self._reload = reload
        self._status = status
        self._bundles: BundleUpdates | None = None
        self._starting = False
        self._running: dict[str, tuple[object, Service[None]]] = {}
        self._id = secrets.token_hex(6)
        self._began = time.monotonic()

    async def start(self) -> None:
        """Begin. Raises `ConfigError` if the host needs a bundle, never had one, and gets none in time."""
        self._starting = True
        updates = self._updates()
        if updates is not None and updates.kept.is_missing and not await updates.first():
            require_bundle(self._source.layers.configs, updates.problem)
        self._starting = False
        self.follow()

    def follow(self) -> None:
        """Begin and end tasks as the configuration now asks."""
        if self._starting:
            return  # the first bundle was applied
        updates, nats, status = self._updates(), self._source.layers.nats, self._status
        self._replace("bundle", updates, None if updates is None else updates.run)
        if status is not None:
            self._replace("fleet", nats, None if nats is None else functools.partial(self._tell_fleet, nats, status))

    def _replace(self, what: str, settings: object, work: Callable[[], Awaitable[None]] | None) -> None:
        known, service = self._running.get(what, (None, None))
        if known == settings:
            return
        if service is not None:
            service.cancel()
            del self._running[what]
        if work is not None:
            self._running[what] = settings, self._begin(work)

    def _updates(self) -> BundleUpdates | None:
        """The object that applies bundles. It is replaced only if its settings change."""
        asking = next((one for one in self._source.layers.configs if one.bundle is not None), None)
        if asking is None:
            self._bundles = None
        elif self._bundles is None or (asking.bundle, asking.nats) != self._bundles.settings:
            kept = KeptBundle(asking)
            self._bundles = BundleUpdates(self._reload, kept, self._source, self._connections, self._log)
        return self._bundles

    async def _tell_fleet(self, nats: NatsSettings, status: Callable[[], Mapping[str, Any]]) -> None:
        connection = self._connections.of(nats)
        try:
            await Heartbeat(
                connection, status, lambda: self._source.layers.in_force, id=self._id, began=self._began
            ).run()
        finally:
            with anyio.CancelScope(shield=True):
                await self._connections.leave(connection)
