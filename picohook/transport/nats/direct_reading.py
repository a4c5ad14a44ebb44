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
_BEGUN = re.compile(rb"H|HM|HMS|HMSG|HMSG [^\r\n]{0,4000}\r?")
"""The beginning of the line that begins a message with headers."""


class DirectReading(asyncio.Protocol):
    """Hands over messages with headers as soon as they come, and gives everything else to nats-py.

    The task of nats-py takes two rounds of the event loop, and most of the time of a message. What it has not read yet comes
    before all later data, so until it has read that, everything goes to nats-py.
    """

    def __init__(
        self,
        earlier: asyncio.StreamReaderProtocol,
        reader: asyncio.StreamReader,
        parser: Parser,
        take: Take,
        taken: Callable[[], None],
    ) -> None:
        """`taken` is called when the messages that came together are handed over."""
        self._earlier = earlier
        self._unread: bytearray = reader._buffer  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        self._parser = parser
        self._take = take
        self._taken = taken
        self._begun = b""
        """The beginning of a message with headers."""

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if self._begun:
            data, self._begun = self._begun + data, b""
        elif self._unread or parser.buf or parser.state != AWAITING_CONTROL_LINE:
            self._earlier.data_received(data)
            return
        at = self._hand_over(data)
        if at < len(data):
            rest = data[at:]
            if _BEGUN.fullmatch(rest) or self._is_incomplete(rest):
                self._begun = rest
            else:
                self._earlier.data_received(rest)
        if at:
            self._taken()

    def _hand_over(self, data: bytes) -> int:
        """Hand over the messages at the start of the data. Returns where the first other byte is."""
        at, size, take = 0, len(data), self._take
        while (found := _MESSAGE.match(data, at)) is not None:
            subject, number, reply, head_size, body_size = found.groups()
            head = found.end()
            body, end = head + int(head_size), head + int(body_size)
            if end + 2 > size or not take(int(number), subject, reply or b"", data[body:end], data[head:body]):
                break
            at = end + 2
        return at

    @staticmethod
    def _is_incomplete(rest: bytes) -> bool:
        """Whether this is a message with headers whose end is missing."""
        found = _MESSAGE.match(rest)
        return found is not None and found.end() + int(found[5]) + 2 > len(rest)

    # The rest is for the stream of nats-py.

    def eof_received(self) -> bool | None:
        return self._earlier.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._earlier.connection_lost(error)

    def pause_writing(self) -> None:
        self._earlier.pause_writing()

    def resume_writing(self) -> None:
        self._earlier.resume_writing()
