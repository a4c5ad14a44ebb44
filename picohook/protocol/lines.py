"""Bytes to lines, in linear time and bounded memory."""

from __future__ import annotations

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
        self._tail = bytearray()

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The lines that these bytes complete, without their ends."""
        if self.overflowed:
            return ()
        lines = data.split(b"\n")
        rest = lines.pop()
        if not rest and not self._tail and len(lines) == 1 and len(lines[0]) <= self.limit:
            return lines  # one whole line, as nearly always
        if self._tail:
            if not lines:
                self._tail += rest
                self._check(len(self._tail))
                return ()
            self._tail += lines[0]
            lines[0] = bytes(self._tail)
            self._tail = bytearray()
        for place, line in enumerate(lines):
            if len(line) > self.limit:
                self._check(len(line))
                return lines[:place]
        if rest and self._check(len(rest)):
            self._tail = bytearray(rest)
        return lines

    def _check(self, length: int) -> bool:
        if length > self.limit:
            self.overflowed = True
            self._tail = bytearray()
        return not self.overflowed

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete line are held."""
        return len(self._tail)
