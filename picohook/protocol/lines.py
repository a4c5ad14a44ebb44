"""Splits bytes into lines, in linear time and bounded memory, and detects a line that is too long."""

from collections.abc import Sequence
from io import BytesIO


class LineBuffer:
    """Splits a byte stream at newlines only. It looks at each byte once.

    A line longer than `limit` (without its newline) sets `too_long`. From then on `feed` returns no lines, because the next
    bytes may be in the middle of one.
    """

    __slots__ = ("limit", "tail", "too_long")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.too_long = False
        self.tail: BytesIO | None = None
        """The bytes received of an unfinished line; None between lines."""

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The lines that these bytes complete, without their newlines."""
        if self.too_long:
            return ()
        if self.tail is None and data.endswith(b"\n") and len(data) <= self.limit:
            return data[:-1].split(b"\n")  # whole lines, as nearly always
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
        lines = begun + lines
        for at, line in enumerate(lines):
            if len(line) > self.limit:
                self.too_long = True
                return lines[:at]
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        # BytesIO grows and returns its value without copying it; a bytearray takes thirty times as long.
        self.tail = self.tail or BytesIO()
        self.tail.write(part)
        if self.tail.tell() > self.limit:
            self.tail, self.too_long = None, True

    @property
    def pending(self) -> int:
        """The number of bytes of an unfinished line that are kept."""
        return 0 if self.tail is None else self.tail.tell()
