"""Reads a process's standard error: logs its lines, up to a rate, and keeps its end for the message about a crash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..observe.rate_limit import RateLimit
from ..wire.text import escape

if TYPE_CHECKING:
    from ..observe.log import Log
    from ..transport.reactor import Reactor

TAIL = 8192
"""The number of bytes of stderr that are kept."""
LINES, WINDOW = 50, 1.0
"""The number of lines that are logged in one window of this many seconds. Further lines are counted."""
LAST_READS = 64
"""The most reads after the process's end: enough for the rest in the pipe, even if a survivor still writes to it."""


class StderrReader:
    """The host's end of a process's stderr. It owns the descriptor."""

    def __init__(self, reactor: Reactor, fd: int, log: Log) -> None:
        self._reactor = reactor
        self._fd = fd
        self._log = log
        self._tail = b""
        self._line = b""
        self._logged = RateLimit(LINES, WINDOW)
        self._suppressed = 0
        reactor.on_readable(fd, self._read)

    @property
    def tail(self) -> str:
        """The end of the text that was written, escaped line by line."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return "\n".join(escape(line) for line in lines)

    def drain(self) -> None:
        """Read the rest after the process has ended, and close."""
        for _ in range(LAST_READS):
            if not self._read():
                break
        self._close()

    def _read(self) -> bool:
        """Read once. Returns whether there may be more."""
        if self._fd < 0:
            return False
        try:
            data = os.read(self._fd, TAIL)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close()
            return False
        self._tail = (self._tail + data)[-TAIL:]
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > TAIL:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._log_line(line)
        return True

    def _close(self) -> None:
        if self._fd >= 0:
            self._reactor.release(self._fd)
            os.close(self._fd)
            self._fd = -1
            if self._line:
                self._log_line(self._line)
            self._log_suppressed()

    def _log_line(self, line: bytes) -> None:
        if self._logged.take(self._reactor.now()):
            self._log_suppressed()
            self._log.info("stderr", line=line.decode("utf-8", "replace").rstrip("\r"))
        else:
            self._suppressed += 1

    def _log_suppressed(self) -> None:
        if self._suppressed:
            self._log.info("stderr, not shown", lines=self._suppressed)
            self._suppressed = 0
