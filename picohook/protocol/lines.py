"""Bytes to lines, in linear time and bounded memory."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class LineBuffer:
    """Splits a byte stream at newlines, and at nothing else.

    It keeps the one line that is not complete yet, and never looks twice at a byte. A line longer than `limit` (its end not
    counted) sets `overflowed`, and nothing comes out any more: what follows can't be trusted to be a line's start.
    """

    __slots__ = ("_tail", "limit", "overflowed")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.overflowed = False
        self._tail: BytesIO | None = None

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The lines that these bytes complete, without their ends."""
        if self.overflowed:
            return ()
        begun: list[bytes] = []
        if self._tail is not None:
            end = data.find(b"\n")
            if end < 0:
                self._keep(data)
                return ()
            self._tail.write(data[:end])
            begun = [self._tail.getvalue()]
            self._tail, data = None, data[end + 1 :]
        lines = data.split(b"\n")
        rest = lines.pop()
        if not rest and not begun and len(lines) == 1 and len(lines[0]) <= self.limit:
            return lines  # one whole line, as nearly always
        lines = begun + lines
        for place, line in enumerate(lines):
            if len(line) > self.limit:
                self.overflowed = True
                return lines[:place]
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        # It grows, and gives what it holds, without copying that; a bytearray takes thirty times as long.
        self._tail = self._tail or BytesIO()
        self._tail.write(part)
        if self._tail.tell() > self.limit:
            self._tail, self.overflowed = None, True

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete line are held."""
        return 0 if self._tail is None else self._tail.tell()
