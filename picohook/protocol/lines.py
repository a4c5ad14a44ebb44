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

    __slots__ = ("limit", "overflowed", "tail")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.overflowed = False
        self.tail: BytesIO | None = None
        """What has come of a line that is not complete; None between lines."""

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The lines that these bytes complete, without their ends."""
        if self.overflowed:
            return ()
        begun: list[bytes] = []
        if self.tail is not None:
            end = data.find(b"\n")
            if end < 0:
                self._keep(data)
                return ()
            self.tail.write(data[:end])
            begun = [self.tail.getvalue()]
            self.tail, data = None, data[end + 1 :]
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
        self.tail = self.tail or BytesIO()
        self.tail.write(part)
        if self.tail.tell() > self.limit:
            self.tail, self.overflowed = None, True

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete line are held."""
        return 0 if self.tail is None else self.tail.tell()
