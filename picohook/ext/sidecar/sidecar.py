"""The sidecar: a host served to programs in any language, over standard streams or a Unix socket.

It speaks JSON-RPC 2.0, one message a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ...model.stages import STAGES
from ...observe.log import Log
from ...rpc.connection import Connection, ConnectionLimits, two_descriptors
from ...rpc.dispatch import LibraryDispatcher
from ...rpc.listening_socket import ListeningSocket
from ...rpc.socket_server import SocketServer
from ...wire.words import MAX_LINE
from .methods import METHODS
from .methods.context import SidecarContext
from .methods.tool_calls import TOOL_METHODS

if TYPE_CHECKING:
    import os

    from ...host import Host
    from ...observe.log import Logger

MAX_CLIENTS = 128
GRACE = 5.0
"""Seconds that open calls have when the server ends."""
NOUN = "the sidecar"
LIMITS = ConnectionLimits(line=MAX_LINE)
DISPATCHER = LibraryDispatcher(METHODS, direct={*STAGES, *(method.name for method in TOOL_METHODS)})
"""The stages and tool calls do not use the library: an agent asks them at every step, and the library would take most of the
time."""


class Sidecar:
    """Serves a running host to clients, until it is told to end.

    ::

        async with Host.from_config("picohook.toml") as host:
            sidecar = Sidecar(host)
            await sidecar.serve(await sidecar.at_socket("hooks.sock"))  # or: await sidecar.at_streams(0, 1)
    """

    def __init__(
        self, host: Host, *, logger: Logger | None = None, limits: ConnectionLimits = LIMITS, grace: float = GRACE
    ) -> None:
        self._host = host
        self._log = Log(logger)
        self._limits = limits
        self._grace = grace
        self._taken: set[str] = set()
        self._ending = anyio.Event()
        self._at_once = anyio.Event()

    def end(self) -> None:
        """End when all open requests are answered, or the grace is over. The second call ends the server now."""
        if self._ending.is_set():
            self._at_once.set()
        self._ending.set()

    async def at_streams(self, read_fd: int, write_fd: int) -> Connection:
        """Returns the connection of one client on two descriptors, which it closes. The end of its input ends the server."""
        await anyio.to_thread.run_sync(DISPATCHER.load)
        return self._connection((read_fd, write_fd))

    async def at_socket(self, path: str | os.PathLike[str]) -> SocketServer:
        """Returns the server for the clients of a Unix socket. Raises `PicohookError`."""
        await anyio.to_thread.run_sync(DISPATCHER.load)
        listening = await ListeningSocket.at_path(path, NOUN)
        return SocketServer(
            listening, lambda connection: self._connection(two_descriptors(connection)), MAX_CLIENTS, self._log
        )

    def _connection(self, descriptors: tuple[int, int]) -> Connection:
        def context(connection: Connection) -> SidecarContext:
            return SidecarContext(self._host, connection, self._taken, self.end)

        return Connection(
            DISPATCHER, context, descriptors, limits=self._limits, log=self._log, noun=NOUN, takes_responses=True
        )

    async def serve(self, clients: Connection | SocketServer) -> None:
        """Serve until the clients have gone or the server is told to end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_time, clients)
            await clients.run()
            tasks.cancel_scope.cancel()

    async def _end_in_time(self, clients: Connection | SocketServer) -> None:
        await self._ending.wait()
        clients.finish()
        with anyio.move_on_after(self._grace):
            await self._at_once.wait()
        clients.abort()
