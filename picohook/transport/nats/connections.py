"""The connections of one host: one for each set of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...model.spec import NatsSettings
    from ...observe.log import Log
    from ..reactor import Reactor
    from .connection import NatsConnection


class Connections:
    """Makes connections when they are first wanted, and closes them with the host."""

    def __init__(self, reactor: Reactor, log: Log) -> None:
        self._reactor = reactor
        self._log = log
        self._open: dict[str, NatsConnection] = {}

    def of(self, settings: NatsSettings) -> NatsConnection:
        """The connection with these settings, which begins to connect now or is there already.

        Raises `PicohookError` if nats-py is not installed.
        """
        from .connection import NatsConnection  # noqa: PLC0415 - most hosts have none

        key = settings.model_dump_json()
        if key not in self._open:
            self._open[key] = NatsConnection(settings, self._reactor, self._log)
        return self._open[key]

    @property
    def all(self) -> tuple[NatsConnection, ...]:
        """The connections that were made."""
        return tuple(self._open.values())

    async def aclose(self) -> None:
        """Close all connections."""
        while self._open:
            await self._open.popitem()[1].aclose()
