"""The connections of one host: one for each set of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...hooks.base import HostServices
    from .connection import NatsConnection
    from .settings import NatsSettings


class Connections:
    """Makes a connection when it is first used, and closes it when its last use ends, or with the host."""

    def __init__(self, host: HostServices) -> None:
        self._reactor = host.reactor
        self._log = host.log
        self._open: dict[str, NatsConnection] = {}
        self._uses: dict[NatsConnection, int] = {}

    def of(self, settings: NatsSettings) -> NatsConnection:
        """The connection with these settings, which begins to connect now or is there already. `leave` ends the use.

        Raises `PicohookError` if nats-py is not installed.
        """
        from .connection import NatsConnection  # most hosts have none

        key = settings.model_dump_json()
        if key not in self._open:
            self._open[key] = NatsConnection(settings, self._reactor, self._log)
        connection = self._open[key]
        self._uses[connection] = self._uses.get(connection, 0) + 1
        return connection

    async def leave(self, connection: NatsConnection) -> None:
        """End one use of a connection."""
        uses = self._uses.get(connection, 0) - 1
        if uses > 0:
            self._uses[connection] = uses
        elif self._uses.pop(connection, 0):
            del self._open[connection.settings.model_dump_json()]
            await connection.aclose()

    @property
    def all(self) -> tuple[NatsConnection, ...]:
        """The connections that are used."""
        return tuple(self._open.values())

    async def aclose(self) -> None:
        """Close all connections."""
        self._uses.clear()
        while self._open:
            await self._open.popitem()[1].aclose()
