"""A listening socket, and those who came in through it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

import anyio

from .place import CLAIM_PAUSE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..observe.log import Log
    from .place import Place

_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Guest(Protocol):
    """Somebody who came in."""

    async def run(self) -> None:
        """Their stay."""

    def finish(self) -> None:
        """Let them have what they asked for, and go."""

    def abort(self) -> None:
        """Let them go now."""


class Door:
    """Open to whoever may come to its place, so many at once. `admit` takes a connection, and makes a guest of it."""

    def __init__(self, place: Place, admit: Callable[[socket.socket], Guest], most: int, log: Log) -> None:
        self._place = place
        self._admit = admit
        self._most = most
        self._log = log
        self._guests: set[Guest] = set()
        self._accepting = anyio.CancelScope()

    async def run(self) -> None:
        """Serve until cancelled, or until it is finished and all have gone."""
        try:
            async with anyio.create_task_group() as tasks:
                with self._accepting:
                    while True:
                        await anyio.wait_readable(self._place.listener)
                        try:
                            connection, _ = self._place.listener.accept()
                        except OSError as error:
                            if error.errno in _FULL:
                                await anyio.sleep(CLAIM_PAUSE)  # it waits until there is room again
                            continue
                        if len(self._guests) < self._most:
                            tasks.start_soon(self._attend, self._let_in(connection))
                        else:
                            connection.close()
                self._place.leave()
        finally:
            self._place.leave()

    def finish(self) -> None:
        """Nobody else comes in; who is in gets what was asked for."""
        self._place.hide()
        self._accepting.cancel()
        for guest in tuple(self._guests):
            guest.finish()

    def abort(self) -> None:
        """Everybody goes now."""
        for guest in tuple(self._guests):
            guest.abort()

    def close(self) -> None:
        """Of one that never ran."""
        self._place.leave()

    def _let_in(self, connection: socket.socket) -> Guest:
        guest = self._admit(connection)
        self._guests.add(guest)
        return guest

    async def _attend(self, guest: Guest) -> None:
        try:
            await guest.run()
        except Exception as error:  # noqa: BLE001 - one guest hurts nobody
            self._log.warning("a client was dropped", why=repr(error))
        finally:
            self._guests.discard(guest)
