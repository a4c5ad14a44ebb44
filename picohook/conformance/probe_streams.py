"""The probe's standard input and output, byte by byte. Standard library only."""

import array
import contextlib
import fcntl
import os
import select
import termios
import time
from collections import deque

CHUNK = 1 << 16
PIPE_SIZE = 1 << 16
"""Bytes that a pipe holds, if the system does not report it."""
LISTEN = 0.2
"""Seconds that the probe waits for lines that a host writes before its greeting is answered."""
_INTERVAL = 0.02
"""Seconds between two looks at the number of bytes in the pipe."""


class Streams:
    """Standard input and output as lines of bytes."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        """The lines that were read and are not checked yet."""
        self.rest = b""
        """The bytes after the last newline."""

    def receive(self) -> bool:
        """Read once. Returns False at the end of the input."""
        data = os.read(0, CHUNK)
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.lines.extend(lines)
        return bool(data)

    @property
    def closed(self) -> bool:
        """Whether the host has closed the input. There may be lines left to read."""
        input_ = select.poll()
        input_.register(0, select.POLLIN)
        return any(event & select.POLLHUP for _, event in input_.poll(0))

    def send(self, data: bytes) -> None:
        """Write all of these bytes."""
        while data:
            data = data[os.write(1, data) :]

    def ends(self, seconds: float) -> bool:
        """Whether the input ends within this time. Lines before the end are not checked."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([0], [], [], left)[0] and not self.receive():
                return True
        return False

    def fills(self, seconds: float) -> bool:
        """Whether the input pipe becomes nearly full within this time."""
        deadline = time.monotonic() + seconds
        size, waiting = PIPE_SIZE, array.array("i", [0])
        with contextlib.suppress(AttributeError, OSError):
            size = fcntl.fcntl(0, fcntl.F_GETPIPE_SZ)
        while time.monotonic() < deadline:
            fcntl.ioctl(0, termios.FIONREAD, waiting)
            if waiting[0] > size - CHUNK // 8:
                return True
            time.sleep(_INTERVAL)
        return False

    def speaks_early(self) -> bool:
        """Whether the host has written more than was checked, or does so within `LISTEN`. The input's end does not count."""
        if not (self.lines or self.rest) and select.select([0], [], [], LISTEN)[0]:
            self.receive()
        return bool(self.lines or self.rest)
