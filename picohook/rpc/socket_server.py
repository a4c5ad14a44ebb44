"""Accepts connections at a listening socket, and serves each until it ends or the server does."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..observe.log import Log
    from .connection import Connection
    from .listening_socket import ListeningSocket

FULL_PAUSE = 0.01
"""Seconds until the server accepts again after the system had no descriptor or memory left."""
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class SocketServer:
    """Serves at most `max_connections` at the same time. `handle` serves a socket, and owns it."""

    def __init__(
        self, listening: ListeningSocket, handle: Callable[[socket.socket], Connection], max_connections: int, log: Log
    ) -> None:
        self.listening = listening
        self.connections: set[Connection] = set()
        self._handle = handle
        self._max_connections = max_connections
        self._log = log
        self._accepting = anyio.CancelScope()

    async def run(self) -> None:
        """Serve until cancelled, or until `finish` was called and every connection has ended."""
        try:
            async with anyio.create_task_group() as tasks:
                with self._accepting:
                    while True:
                        await anyio.wait_readable(self.listening.socket)
                        try:
                            accepted, _ = self.listening.socket.accept()
                        except OSError as error:
                            if error.errno in _FULL:
                                await anyio.sleep(FULL_PAUSE)
                            continue
                        if len(self.connections) < self._max_connections:
                            connection = self._handle(accepted)
                            self.connections.add(connection)
                            tasks.start_soon(self._serve, connection)
                        else:
                            accepted.close()
                self.listening.close()
        finally:
            self.listening.close()

    def finish(self) -> None:
        """Accept no more connections. Each connection ends when its open requests are answered."""
        self.listening.unlink()
        self._accepting.cancel()
        for connection in tuple(self.connections):
            connection.finish()

    def abort(self) -> None:
        """End every connection now."""
        for connection in tuple(self.connections):
            connection.abort()

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Exception as error:  # the other connections continue
            self._log.warning("a client was dropped", why=repr(error))
        finally:
            self.connections.discard(connection)
