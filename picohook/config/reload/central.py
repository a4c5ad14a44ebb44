"""Applies new bundles while a host runs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from ...errors import NatsError, PicohookError
from ...transport.nats.bundle import require_newer
from ...transport.nats.streams import read_bundle
from ...transport.nats.subjects import token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...engine.status import Reloaded
    from ...observe.log import Log
    from ...transport.nats.bundle import Bundle
    from ...transport.nats.connection import NatsConnection
    from ...transport.nats.connections import Connections
    from ..bundles import KeptBundle
    from .source import Source

LOOK_EVERY = 60.0
"""Seconds after which the bucket is read although no change was reported."""


class BundleUpdates:
    """Reads the bucket whenever it changes, and applies a newer bundle.

    If a bundle cannot be used, that is logged, and the last good one stays. It is tried again at intervals, because a mistake
    in a local file may have been in its way, and so is one that cannot be kept.
    """

    def __init__(
        self,
        take_over: Callable[[Bundle], Awaitable[Reloaded]],
        kept: KeptBundle,
        source: Source,
        connections: Connections,
        log: Log,
    ) -> None:
        """`take_over` reloads the configuration with a bundle, and raises `PicohookError` if it cannot be used."""
        self.kept = kept
        self.settings = kept.table, kept.connection
        self.problem = ""
        """Why the bundle in the bucket is not in force; empty if it is, or if there is none."""
        self._reload_with = take_over
        self._source = source
        self._newest: Bundle | None = None
        """The newest bundle that was in force, also if it could not be kept."""
        self._connections = connections
        self._in_use: NatsConnection | None = None
        self._log = log
        self._looked_at = ""
        self._some = anyio.Event()

    @property
    def in_force(self) -> str | None:
        """The hash of the configuration in the bundle that is in force; None if none is."""
        return self._source.layers.in_force.get("bundle")

    @property
    def _connection(self) -> NatsConnection:
        if self._in_use is None:
            self._in_use = self._connections.of(self.kept.connection)
            self._in_use.config_digest = self.in_force or ""
        return self._in_use

    async def first(self) -> bool:
        """Wait until the host has a bundle, for as long as the table [nats.bundle] says. Returns whether it has one."""
        patience = self.kept.table.wait
        with anyio.move_on_after(patience):
            while not await self.look():
                await self._connection.connected(patience)
                await anyio.sleep(0.05)
        return self.in_force is not None

    async def run(self) -> None:
        """Apply each new bundle, until cancelled."""
        connection, table = self._connection, self.kept.table
        connection.on_change.add(self._wake)
        listening = await connection.listen(f"$KV.{table.bucket}.{token(table.name)}", lambda _: self._wake())
        try:
            while True:
                self._some = anyio.Event()
                await self.look()
                with anyio.move_on_after(LOOK_EVERY) as interval:
                    await self._some.wait()
                if interval.cancelled_caught and self.problem:
                    self._looked_at = ""
        finally:
            connection.on_change.discard(self._wake)
            connection.config_digest = self.in_force or ""
            with anyio.CancelScope(shield=True):
                await listening.stop(drain=False)
                await self._connections.leave(connection)

    def _wake(self) -> None:
        self._some.set()

    async def look(self) -> bool:
        """Read the bucket once. Returns whether a bundle is in force."""
        table = self.kept.table
        try:
            data = await self._connection.run(lambda client: read_bundle(client, table.bucket, table.name))
        except NatsError as error:
            self.problem = str(error)
            return self.in_force is not None
        if data is not None and (digest := hashlib.sha256(data).hexdigest()) != self._looked_at:
            self.problem = ""
            try:
                kept = await self._take_over(data)
            except Exception as error:  # noqa: BLE001 - on any error, the last good one stays
                self.problem = str(error)
                self._log.error("a bundle is refused: the last good one stays", why=str(error))
                kept = True
            if kept:
                self._looked_at = digest
        return self.in_force is not None

    async def _take_over(self, data: bytes) -> bool:
        """Apply this bundle. Returns whether it is kept. Raises if it cannot be used, and then changes nothing."""
        place = f"{self.kept.table.name} in the bucket {self.kept.table.bucket}"

        def checked() -> Bundle:
            bundle = self.kept.verify(data, place)
            self.kept.require_newer(bundle, place)
            require_newer(bundle, self._newest, place)
            return bundle

        bundle = await run_sync(checked)
        with anyio.CancelScope(shield=True):  # a host that ends meanwhile keeps the bundle for its next start
            if bundle.hash != self.in_force:
                await self._reload_with(bundle)
                self._log.info("a bundle is in force", version=bundle.version)
            self._newest, self._connection.config_digest = bundle, bundle.hash
            try:
                await run_sync(self.kept.keep, bundle)
            except PicohookError as error:
                self._log.error("a bundle is in force, and cannot be kept for the next start", why=str(error))
                return False
        return True
