"""The HTTP endpoint for Prometheus: `GET /metrics`."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
import h11
from anyio.abc import SocketStream, UNIXSocketStream

from ..errors import PicohookError
from ..observe.prometheus import prometheus
from .server.listening_socket import ListeningSocket
from .server.socket_server import SocketServer

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..observe.log import Log

MAX_HEAD = 16 * 1024
"""The most bytes of a request's line and headers. A longer request is refused."""
CHUNK = 4096
MAX_CLIENTS = 16
TIMEOUT = 10.0
"""Seconds for one request and its answer."""
NOUN = "the metrics endpoint"


async def open_metrics_endpoint(host: Engine, where: str, log: Log) -> SocketServer:
    """Returns the endpoint, listening at [HOST:]PORT or at the path of a Unix socket. Raises `PicohookError`.

    Without HOST it listens only on this machine's loopback address.
    """
    address = _address(where)
    listening = (
        await ListeningSocket.at_path(where, NOUN) if address is None else ListeningSocket.on_port(*address, NOUN)
    )
    return SocketServer(listening, lambda connection: MetricsRequest(host, connection, log), MAX_CLIENTS, log)


def _address(where: str) -> tuple[str, int] | None:
    """Host and port; None for a path. Raises `PicohookError`."""
    if os.sep in where:
        return None
    host, _, port = where.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise PicohookError(
            f"{where} is not an address for {NOUN}: that is [HOST:]PORT, or the path of a socket with a / in it"
        )
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


class MetricsRequest:
    """One connection, on which one request is answered."""

    def __init__(self, host: Engine, connection: socket.socket, log: Log) -> None:
        self._host = host
        self._connection = connection
        self._log = log
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Read the request, answer it, and close the connection."""
        kind = UNIXSocketStream if self._connection.family == socket.AF_UNIX else SocketStream
        with (
            self._connection,
            self._scope,
            anyio.move_on_after(TIMEOUT),
            suppress(anyio.EndOfStream, anyio.BrokenResourceError),
        ):
            async with await kind.from_socket(self._connection) as stream:
                await stream.send(await self._response(stream))
                await stream.send_eof()
                while True:  # until the client ends: with unread input, the system would discard the answer
                    await stream.receive()

    def finish(self) -> None:
        """Does nothing, since the connection ends soon by itself."""

    def abort(self) -> None:
        """Close the connection."""
        self._scope.cancel()

    async def _response(self, stream: SocketStream | UNIXSocketStream) -> bytes:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD - CHUNK)
        method = b""
        try:
            while (event := http.next_event()) is h11.NEED_DATA:
                try:
                    http.receive_data(await stream.receive(CHUNK))
                except anyio.EndOfStream:
                    http.receive_data(b"")
            if not isinstance(event, h11.Request) or event.http_version not in {b"1.0", b"1.1"}:
                raise h11.RemoteProtocolError("not an HTTP/1.1 request")  # noqa: TRY301
            method = event.method
            status, body = self._answer(method, event.target.partition(b"?")[0])
        except h11.RemoteProtocolError as error:
            status, body = error.error_status_hint, b"this is not an HTTP/1.1 request\n"
            http = h11.Connection(h11.SERVER)  # the first one does not answer an invalid request
        headers = [
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *([("Allow", "GET, HEAD")] if status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        ]
        response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
        events = [response, *([] if method == b"HEAD" else [h11.Data(data=body)]), h11.EndOfMessage()]
        return b"".join(http.send(event) or b"" for event in events)

    def _answer(self, method: bytes, path: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if path != b"/metrics":
            return HTTPStatus.NOT_FOUND, b"the metrics are at /metrics\n"
        if method not in {b"GET", b"HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, b""
        try:
            return HTTPStatus.OK, prometheus(self._host.status().wire()).encode()
        except Exception as error:  # noqa: BLE001 - logged here; the client is not told what it was
            self._log.error(f"{NOUN} failed", why=repr(error))
            return HTTPStatus.INTERNAL_SERVER_ERROR, b""
