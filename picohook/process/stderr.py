"""Reads a process's standard error: logs its lines, up to a rate, and keeps its end for the message about a crash."""

from ..observe.log import Log
from ..observe.rate_limit import RateLimit
from ..protocol.raw_line import RawLine
from ..transport.pipe import CHUNK, LinePipe
from ..transport.reactor import Reactor
from ..wire.text import escape, show

TAIL = 8192
"""The number of bytes of stderr that are kept, and of a line that are logged."""
LINES, WINDOW = 50, 1.0
"""The number of lines that are logged in one window of this many seconds. Further lines are counted."""
READ_AT_END = 8 * CHUNK
"""The most bytes that are read after the process's end, even if a survivor still writes."""


class StderrReader:
    """The host's end of a process's stderr. It owns the descriptor."""

    def __init__(self, reactor: Reactor, fd: int, log: Log) -> None:
        self._reactor = reactor
        self._log = log
        self._tail = b""
        self._logged = RateLimit(LINES, WINDOW)
        self._suppressed = 0
        self._pipe = LinePipe(reactor, fd, None, self._received, lambda: None, tap=self._log_line)

    @property
    def tail(self) -> str:
        """The end of the text that was written, escaped line by line."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return "\n".join(escape(line) for line in lines)

    def drain(self) -> None:
        """Read the rest after the process has ended, and close."""
        self._pipe.drain(READ_AT_END)
        self._pipe.close()
        self._log_suppressed()

    def _received(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL:]

    def _log_line(self, line: RawLine) -> None:
        if self._logged.take(self._reactor.now()):
            self._log_suppressed()
            self._log.info("stderr", line=show(line.data.rstrip(b"\r"), TAIL))
        else:
            self._suppressed += 1

    def _log_suppressed(self) -> None:
        if self._suppressed:
            self._log.info("stderr, not shown", lines=self._suppressed)
            self._suppressed = 0
