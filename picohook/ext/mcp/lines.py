"""Splits the bytes of one side into lines, and skips a line that is too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.codec import ENDS
from ...protocol.lines import LineBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence


class LongLine(NamedTuple):
    """The parts of a line that is too long."""

    beginning: bytes
    end: bytes


class Lines:
    """The lines of a byte stream."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = LineBuffer(limit)
        self._long: LongLine | None = None
        """The ends of the unfinished line, if it is too long already."""

    @property
    def pending(self) -> int:
        """The number of bytes of an unfinished line that are kept."""
        return self._buffer.pending if self._long is None else len(self._long.end)

    def feed(self, data: bytes) -> Sequence[bytes | LongLine]:
        """The lines that these bytes complete, without their newlines."""
        if self._long is None and self._buffer.pending + len(data) <= self.limit:
            return self._buffer.feed(data)  # as nearly always
        made: list[bytes | LongLine] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            if self._long is None:
                made += self._buffer.feed(b"\n")
            else:
                made.append(self._long)
                self._long = None
        self._keep(rest)
        return made

    def _keep(self, part: bytes) -> None:
        if self._long is not None:
            self._long = LongLine(self._long.beginning, (self._long.end + part)[-ENDS:])
            return
        begun = self._buffer.tail
        if self._buffer.pending + len(part) <= self.limit:
            if part:
                self._buffer.feed(part)
            return
        kept = b"" if begun is None else begun.getvalue()
        self._buffer.tail = None
        self._long = LongLine((kept[:ENDS] + part)[:ENDS], (kept[-ENDS:] + part)[-ENDS:])
