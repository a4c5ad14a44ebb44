"""The sidecar: a host for a runtime in any language, which asks it over standard streams or a Unix socket.

JSON-RPC 2.0, one message a line; the methods are those of `driving`, and what it takes to operate a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ..observe.log import Log
from ..wire.words import MAX_LINE
from .client import Client, Limits, both_ways
from .door import Door
from .driving import DRIVING, Driver
from .place import Place
from .questions import Questions
from .table import Table

if TYPE_CHECKING:
    import os

    from ..engine.engine import Engine
    from ..observe.log import Logger
    from .client import Tell

MAX_CLIENTS = 128
GRACE = 5.0
"""Seconds that calls under way have to end, once the server is to end."""
NOUN = "the sidecar"
LIMITS = Limits(line=MAX_LINE)
TABLE = Table(DRIVING)


class Sidecar:
    """Serves a running host to clients, until it is told to end.

    ::

        async with Host.from_config("picohook.toml") as host:
            sidecar = Sidecar(host)
            await sidecar.serve(await sidecar.at_socket("hooks.sock"))  # or: sidecar.at_streams(0, 1)
    """

    def __init__(
        self, host: Engine, *, logger: Logger | None = None, limits: Limits = LIMITS, grace: float = GRACE
    ) -> None:
        self._host = host
        self._log = Log(logger)
        self._limits = limits
        self._grace = grace
        self._taken: set[str] = set()
        self._ending = anyio.Event()
        self._at_once = anyio.Event()

    def end(self) -> None:
        """Let all that was asked be answered, within the grace, and end. A second time: end now."""
        if self._ending.is_set():
            self._at_once.set()
        self._ending.set()

    def at_streams(self, read_fd: int, write_fd: int) -> Client:
        """One client on two descriptors, which it closes. Its end of input is the end of the server."""
        questions = Questions()

        def state(tell: Tell) -> Driver:
            return Driver(self._host, tell, self._taken, self.end, questions)

        descriptors = (read_fd, write_fd)
        return Client(TABLE, state, descriptors, limits=self._limits, log=self._log, noun=NOUN, questions=questions)

    async def at_socket(self, path: str | os.PathLike[str]) -> Door:
        """All who come to a Unix socket there. Raises `PicohookError`."""
        await anyio.to_thread.run_sync(TABLE.load)
        place = await Place.at(path, NOUN)
        return Door(place, lambda connection: self.at_streams(*both_ways(connection)), MAX_CLIENTS, self._log)

    async def serve(self, who: Client | Door) -> None:
        """Serve them, until they are gone or the server is to end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_time, who)
            await who.run()
            tasks.cancel_scope.cancel()

    async def _end_in_time(self, who: Client | Door) -> None:
        await self._ending.wait()
        who.finish()
        with anyio.move_on_after(self._grace):
            await self._at_once.wait()
        who.abort()
