"""What goes to a hook's standard input and what comes from its standard output, line by line, as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT = 64 * 1024
"""Bytes of a line that are kept."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line, or what there is of one."""

    hook: str
    sent: bool
    """Whether it went to the hook; else it came from it."""
    data: bytes
    """Its beginning, without the newline."""
    size: int
    """All its bytes, without the newline."""
    ended: bool = True
    """Whether it has its newline."""

    @property
    def text(self) -> str:
        """The line with every character escaped that could act on a terminal, and what is not there of it."""
        cut = f"… ({self.size} bytes)" if self.size > len(self.data) else ""
        return escape(self.data.decode("utf-8", "backslashreplace")) + cut + ("" if self.ended else " (no newline)")

    @property
    def shown(self) -> str:
        """The line for people: `→` what went to the hook, `←` what came from it."""
        return f"{'→' if self.sent else '←'} {self.hook}  {self.text}"


class RawLines:
    """Makes lines of the bytes that go one way."""

    def __init__(self, hook: str, tell: Callable[[RawLine], None], *, sent: bool) -> None:
        self._hook = hook
        self._tell = tell
        self._sent = sent
        self._kept = bytearray()
        self._size = 0

    def take(self, data: bytes | memoryview) -> None:
        """The next bytes."""
        *lines, rest = bytes(data).split(b"\n")
        for line in lines:
            self._add(line)
            self._end(ended=True)
        self._add(rest)

    def close(self) -> None:
        """No more bytes come."""
        if self._size:
            self._end(ended=False)

    def _add(self, data: bytes) -> None:
        self._kept += data[: KEPT - len(self._kept)]
        self._size += len(data)

    def _end(self, *, ended: bool) -> None:
        line = RawLine(self._hook, self._sent, bytes(self._kept), self._size, ended)
        self._kept.clear()
        self._size = 0
        self._tell(line)
