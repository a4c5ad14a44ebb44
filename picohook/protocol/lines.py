"""Bytes to lines, in linear time and bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class LineBuffer:
    """Splits a byte stream at newlines, and at nothing else.

    It keeps the one line that is not complete yet, and never looks twice at a byte. A line longer than `limit` (its end not
    counted) sets `overflowed`, and nothing comes out any more: what follows can't be trusted to be a line's start.
    """

    __slots__ = ("_tail", "limit", "overflowed")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.overflowed = False
        self._tail = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that these bytes complete, without their ends."""
        start = 0
        while not self.overflowed:
            end = data.find(b"\n", start)
            length = len(self._tail) + (end if end >= 0 else len(data)) - start
            if length > self.limit:
                self.overflowed = True
                self._tail = bytearray()
            elif end < 0:
                self._tail += memoryview(data)[start:] if start else data
                return
            elif self._tail:
                self._tail += memoryview(data)[start:end]
                line, self._tail = bytes(self._tail), bytearray()
                start = end + 1
                yield line
            else:
                line = data[start:end]
                start = end + 1
                yield line

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete line are held."""
        return len(self._tail)
