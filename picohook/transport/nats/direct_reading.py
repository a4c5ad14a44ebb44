"""Reads the messages of a connection without the task in which nats-py reads it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from nats.protocol.parser import AWAITING_CONTROL_LINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.protocol.parser import Parser

    Take = Callable[[int, bytes, bytes, bytes, bytes], bool]
    """Takes a message: its subscription's number, its subject, reply, body and head. Returns False if it is for nats-py."""

_MESSAGE = re.compile(rb"HMSG (\S+) (\d+) (?:(\S+) )?(\d+) (\d+)\r\n")


class DirectReading(asyncio.Protocol):
    """Hands over a message with headers as soon as it comes, and gives everything else to nats-py.

    The task of nats-py takes two rounds of the event loop. Messages that come together share them, so they go to nats-py too,
    and so does all that comes before it has read what it has.
    """

    def __init__(
        self, earlier: asyncio.StreamReaderProtocol, reader: asyncio.StreamReader, parser: Parser, take: Take
    ) -> None:
        self._earlier = earlier
        self._unread: bytearray = reader._buffer  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        self._parser = parser
        self._take = take

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        has_read_all = not self._unread and not parser.buf and parser.state == AWAITING_CONTROL_LINE
        if not (has_read_all and self._is_taken(data)):
            self._earlier.data_received(data)

    def _is_taken(self, data: bytes) -> bool:
        """Hand over the data, if it is one whole message. Returns whether it was handed over."""
        found = _MESSAGE.match(data)
        if found is None:
            return False
        subject, number, reply, head_size, body_size = found.groups()
        head = found.end()
        body, end = head + int(head_size), head + int(body_size)
        if end + 2 != len(data):
            return False
        return self._take(int(number), subject, reply or b"", data[body:end], data[head:body])

    # The rest is for the stream of nats-py.

    def eof_received(self) -> bool | None:
        return self._earlier.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._earlier.connection_lost(error)

    def pause_writing(self) -> None:
        self._earlier.pause_writing()

    def resume_writing(self) -> None:
        self._earlier.resume_writing()
