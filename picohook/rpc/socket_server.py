"""Accepts connections at a listening socket, and serves each until it ends or the server does."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..observe.log import Log
    from .listening_socket import ListeningSocket

FULL_PAUSE = 0.01
"""Seconds until the server accepts again after the system had no descriptor or memory left."""
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Handler(Protocol):
    """Serves one connection."""

    async def run(self) -> None:
        """Serve it until it ends."""

    def finish(self) -> None:
        """End when all open requests are answered."""

    def abort(self) -> None:
        """End at once, without waiting for open requests."""


class SocketServer:
    """Serves at most `max_connections` at the same time. `handle` makes a handler for a connection, and owns it."""

    def __init__(
        self, listening: ListeningSocket, handle: Callable[[socket.socket], Handler], max_connections: int, log: Log
    ) -> None:
        self.listening = listening
        self.handlers: set[Handler] = set()
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
                            connection, _ = self.listening.socket.accept()
                        except OSError as error:
                            if error.errno in _FULL:
                                await anyio.sleep(FULL_PAUSE)
                            continue
                        if len(self.handlers) < self._max_connections:
                            handler = self._handle(connection)
                            self.handlers.add(handler)
                            tasks.start_soon(self._serve, handler)
                        else:
                            connection.close()
                self.listening.close()
        finally:
            self.listening.close()

    def finish(self) -> None:
        """Accept no more connections. Each connection ends when its open requests are answered."""
        self.listening.unlink()
        self._accepting.cancel()
        for handler in tuple(self.handlers):
            handler.finish()

    def abort(self) -> None:
        """End every connection now."""
        for handler in tuple(self.handlers):
            handler.abort()

    async def _serve(self, handler: Handler) -> None:
        try:
            await handler.run()
        except Exception as error:  # the other connections continue
            self._log.warning("a client was dropped", why=repr(error))
        finally:
            self.handlers.discard(handler)
