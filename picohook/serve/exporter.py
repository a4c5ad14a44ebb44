"""Prometheus' endpoint: `GET /metrics`, and as little of HTTP as that takes. What is no such request gets its status."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import anyio

from ..errors import PicohookError
from ..observe.prometheus import prometheus
from .door import Door
from .place import Place

if TYPE_CHECKING:
    import socket

    from ..engine.engine import Engine
    from ..observe.log import Log

MAX_HEAD = 16 * 1024
"""Bytes of a request's line and headers."""
MAX_CLIENTS = 16
PATIENCE = 10.0
"""Seconds for one request and its answer."""
NOUN = "the metrics' endpoint"

_REQUEST = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.[01]\r?\n")
_END = re.compile(rb"\n\r?\n")
_STATUS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}


async def open_exporter(host: Engine, where: str, log: Log) -> Door:
    """Listen at [HOST:]PORT, on this machine alone unless a host is named, or at the path of a Unix socket."""
    address = _address(where)
    place = await Place.at(where, NOUN) if address is None else Place.on_port(*address, NOUN)
    return Door(place, lambda connection: Scrape(host, connection, log), MAX_CLIENTS, log)


def _address(where: str) -> tuple[str, int] | None:
    """Host and port; None for a path. Raises `PicohookError`."""
    if os.sep in where:
        return None
    host, _, port = where.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port there is
        raise PicohookError(
            f"{where} is no place for {NOUN}: it is [HOST:]PORT, or the path of a socket with a / in it"
        )
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


class Scrape:
    """One connection, which is one request."""

    def __init__(self, host: Engine, connection: socket.socket, log: Log) -> None:
        connection.setblocking(False)
        self._host = host
        self._connection = connection
        self._log = log
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Read it, answer it, and hang up."""
        with self._connection as connection, self._scope, anyio.move_on_after(PATIENCE):
            try:
                status, body, head_only = self._answer(await self._head())
                await self._send(status, body, head_only=head_only)
                connection.shutdown(1)
                while await self._receive():
                    pass  # what is left unread would make the system take the answer back
            except OSError:
                pass  # it has hung up

    def finish(self) -> None:
        """It is over soon by itself."""

    def abort(self) -> None:
        """Hang up."""
        self._scope.cancel()

    async def _head(self) -> bytes:
        data = b""
        while _END.search(data) is None and len(data) <= MAX_HEAD:
            more = await self._receive()
            if not more:
                break
            data += more
        return data

    def _answer(self, head: bytes) -> tuple[int, str, bool]:
        """Status, body, and whether the body is left out."""
        if len(head) > MAX_HEAD:
            return 431, "", False
        request = _REQUEST.match(head)
        if request is None or _END.search(head) is None:
            return 400, "this is no HTTP/1.1 request\n", False
        method, target = request[1], request[2].partition(b"?")[0]
        head_only = method == b"HEAD"
        if target != b"/metrics":
            return 404, "the metrics are at /metrics\n", head_only
        if method not in {b"GET", b"HEAD"}:
            return 405, "", False
        try:
            return 200, prometheus(self._host.status().wire()["hooks"]), head_only
        except Exception as error:  # noqa: BLE001 - of which the client learns nothing but that it happened
            self._log.error(f"{NOUN} failed", why=repr(error))
            return 500, "", head_only

    async def _send(self, status: int, text: str, *, head_only: bool) -> None:
        body = text.encode()
        allow = "Allow: GET, HEAD\r\n" if status == 405 else ""  # noqa: PLR2004
        left = (
            f"HTTP/1.1 {status} {_STATUS[status]}\r\n"
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"{allow}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode() + (b"" if head_only else body)
        while left:
            try:
                left = left[self._connection.send(left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._connection)

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._connection.recv(4096)
            except BlockingIOError:
                await anyio.wait_readable(self._connection)
