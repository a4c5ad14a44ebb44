"""A program that is an MCP server on its standard streams, and passes everything on to a remote server over streamable HTTP.

`picohook mcp --url` starts it as the server. So a remote server has the same hooks and limits as any other, and the process
that talks to the network knows nothing of the hooks. It needs the extra `mcp`.
"""

import logging
import math
import os
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import jsonrpc_message_adapter

from ...protocol.lines import LineBuffer
from ...rpc.jsonrpc import REFUSED
from ...rpc.stream import Stream
from ...transport.event_loop import current_reactor
from ...wire.words import MAX_LINE
from .messages import VERSION, Message, RefusedLineError, error_line, line_of, meta_of, read_mended
from .remote import headers_of

CONNECT_WAIT = 30.0
"""Seconds in which the remote server has to accept a connection and a request."""
READ_WAIT = 300.0
"""Seconds in which it has to send something while a request is open."""
UNSENT = 1 << 18
"""Bytes that picohook may leave unread. Above that, the bridge stops reading from the remote server."""
WAITING = 64
"""Lines that may wait to be passed on. Above that, the bridge stops reading."""


class Client(httpx2.AsyncClient):
    """An HTTP client that turns failures into answers, so that the connection to the server continues."""

    async def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
        """Send a request. Returns the response, or one with the reason for its absence."""
        try:
            response = await super().send(request, **settings)
            kind = response.headers.get("content-type", "").lower()
            if kind.startswith("text/event-stream"):
                return response
            if response.is_error and "json" not in kind:
                await response.aclose()
                return _failed(request, f"it answered {response.status_code} {response.reason_phrase}".rstrip())
            return await _whole(response)
        except httpx2.TimeoutException:
            return _failed(request, "it did not answer in time")
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            return _failed(request, f"there is no connection to it: {type(error).__name__}")


async def _whole(response: httpx2.Response) -> httpx2.Response:
    """The response with all of its body."""
    body = bytearray()
    try:
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                body += part
                if len(body) > MAX_LINE:
                    return _failed(response.request, f"its answer has more than {MAX_LINE} bytes")
    finally:
        await response.aclose()
    changed = {"content-length", "content-encoding", "transfer-encoding"}
    headers = {name: value for name, value in response.headers.items() if name not in changed}
    whole = httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)
    whole.next_request = response.next_request
    return whole


def _failed(request: httpx2.Request, why: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": REFUSED, "message": f"picohook: the remote server: {why}"}}
    return httpx2.Response(502, json=error, request=request)


class Bridge:
    """The lines of one client, to and from a remote server."""

    def __init__(self, descriptors: tuple[int, int]) -> None:
        """Take the descriptors to read lines from and to write lines to."""
        self._open: set[int | str] = set()
        """The ids of requests that the server has not answered."""
        self._greeting: Any = None
        """The id of the request `initialize`."""
        self._version = ""
        """The version of the older protocol that both sides use; empty before they have agreed."""
        self._buffer = LineBuffer(MAX_LINE)
        self._lines_in, self._lines = anyio.create_memory_object_stream[bytes](math.inf)
        self._changed = anyio.Event()
        self._over = anyio.CancelScope()
        self._stream = Stream(
            current_reactor(),
            *descriptors,
            on_data=self._received,
            on_end=self._lines_in.close,
            on_broken=self._over.cancel,
            on_written=lambda: None,
        )

    def _received(self, data: bytes) -> None:
        for line in self._buffer.feed(data):
            self._lines_in.send_nowait(line)
        if self._buffer.too_long:
            self._over.cancel()
        elif self._lines_in.statistics().current_buffer_used > WAITING:
            self._stream.pause()

    async def run(self, url: str, headers: Mapping[str, str], *, read_wait: float = READ_WAIT) -> None:
        """Pass messages on until the client has ended and has all its answers. Raises whatever ends the connection before."""
        timeout = httpx2.Timeout(CONNECT_WAIT, read=read_wait)
        try:
            with self._over:
                async with (
                    Client(headers=headers, timeout=timeout) as http,
                    streamable_http_client(url, http_client=http, max_sse_event_size=MAX_LINE) as (answers, requests),
                    anyio.create_task_group() as tasks,
                ):
                    tasks.start_soon(self._pass_answers, answers)
                    self._stream.read_on()
                    await self._pass_requests(requests)
                    while self._open:
                        self._changed = anyio.Event()
                        await self._changed.wait()
                    await self._stream.emptied()
                    tasks.cancel_scope.cancel()
        finally:
            self._stream.close()
            self._lines_in.close()
            self._lines.close()

    async def _pass_requests(self, requests: Any) -> None:
        async for line in self._lines:
            if self._lines.statistics().current_buffer_used == 0:
                self._stream.read_on()
            try:
                own, message = read_mended(line)
                typed = _typed(own, message)
                headers = self._note_request(message)
            except RefusedLineError as error:
                self._refuse(error.asks, str(error))
            except ValueError:
                self._refuse(message.get("id"), "the message has a form that HTTP cannot carry")
            else:
                await requests.send(SessionMessage(typed, ClientMessageMetadata(headers=headers)))

    async def _pass_answers(self, answers: Any) -> None:
        async for answer in answers:
            if isinstance(answer, Exception):
                continue  # a message that could not be read; whoever waits for it is told by a message of its own
            message = answer.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            if "method" not in message:
                identity, result = message.get("id"), message.get("result", {})
                self._close(identity)
                if identity == self._greeting and type(version := result.get("protocolVersion")) is str:
                    self._version = encode_header_value(version)
            self._stream.send(line_of(message))
            if self._stream.unsent > UNSENT:
                await self._stream.emptied()
        raise ConnectionError("the connection ended")

    def _refuse(self, identity: Any, why: str) -> None:
        self._close(identity)
        if identity is not None:
            self._stream.send(error_line(identity, why))

    def _note_request(self, message: Message) -> dict[str, str]:
        """Note the subject of a client's message. Returns the headers that go with it. Raises `ValueError`."""
        method, params, identity = message.get("method"), message.get("params", {}), message.get("id")
        if method == "notifications/cancelled":
            self._close(params.get("requestId"))
        elif method is not None and identity is not None:
            self._open.add(identity)
        version = meta_of(params).get(VERSION)
        if method == "initialize":
            self._greeting = identity
            return {}
        if type(version) is not str:
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if type(name) is str:
            headers[MCP_NAME_HEADER] = name
        return {name: encode_header_value(value) for name, value in headers.items()}

    def _close(self, identity: Any) -> None:
        if type(identity) in {int, str} and identity in self._open:
            self._open.remove(identity)
            self._changed.set()


def _typed(line: bytes, message: Message) -> Any:
    """The message as the SDK has it. Raises `ValueError` for an id that it would drop."""
    if type(message.get("id")) is float:
        raise ValueError("the id is not a whole number")
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


async def _main(url: str, headers: Mapping[str, str]) -> None:
    streams = os.dup(0), os.dup(1)
    await Bridge(streams).run(url, headers)


def main(url: str, *headers: str) -> None:
    """Be the server at this URL. `headers` are texts as `headers_of` takes them."""
    logging.disable()  # of other packages: their messages show what goes over the network
    try:
        anyio.run(_main, url, headers_of(headers, os.environ))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:  # what it says may show what goes over the network
        sys.stderr.write("the connection to the remote MCP server ended\n")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
