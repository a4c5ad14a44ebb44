"""The raw lines of a hook's standard input and output, for a `tap`."""

from collections.abc import Callable
from dataclasses import dataclass

from ..wire.text import escape

MAX_KEPT = 64 * 1024
"""The most bytes of a line that are kept."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line, or the beginning of one."""

    hook: str
    sent: bool
    """True if it went to the hook, False if it came from the hook."""
    data: bytes
    """The first bytes of the line, without the newline."""
    size: int
    """The number of bytes that it has in all, without the newline."""
    ended: bool = True
    """Whether it ended with a newline."""

    @property
    def text(self) -> str:
        """The line as text, escaped for a terminal, with a note if a part of it is missing."""
        missing = f"… ({self.size} bytes)" if self.size > len(self.data) else ""
        return escape(self.data.decode("utf-8", "backslashreplace")) + missing + ("" if self.ended else " (no newline)")

    @property
    def shown(self) -> str:
        """The line with its hook and its direction: `→` to the hook, `←` from the hook."""
        return f"{'→' if self.sent else '←'} {self.hook}  {self.text}"


class RawLineSplitter:
    """Splits the bytes of one direction into raw lines, and calls `tell` with each."""

    def __init__(self, hook: str, tell: Callable[[RawLine], None], *, sent: bool) -> None:
        self.hook = hook
        """The name that its lines have."""
        self._tell = tell
        self._sent = sent
        self._kept = bytearray()
        self._size = 0

    def take(self, data: bytes | memoryview) -> None:
        """Take the next bytes, and report the lines that they complete."""
        *lines, rest = bytes(data).split(b"\n")
        for line in lines:
            self._add(line)
            self._end(ended=True)
        self._add(rest)

    def close(self) -> None:
        """Report an unfinished line. Call it after the last bytes."""
        if self._size:
            self._end(ended=False)

    def _add(self, data: bytes) -> None:
        self._kept += data[: MAX_KEPT - len(self._kept)]
        self._size += len(data)

    def _end(self, *, ended: bool) -> None:
        line = RawLine(self.hook, self._sent, bytes(self._kept), self._size, ended)
        self._kept.clear()
        self._size = 0
        self._tell(line)
