"""Two file descriptors of a child process, as bytes in and bytes out. Never blocks, never waits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .reactor import Reactor

CHUNK = 65536
"""A pipe holds as much; larger reads cost more than they bring."""


class LinePipe:
    """The parent's ends of a child's stdin and stdout. Owns both descriptors."""

    __slots__ = ("_on_data", "_on_end", "_reactor", "_read_fd", "_write_fd")

    def __init__(
        self,
        reactor: Reactor,
        read_fd: int,
        write_fd: int,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_data = on_data
        self._on_end = on_end
        reactor.on_readable(read_fd, self._read)

    def _read(self) -> bool:
        """Read once; whether there may be more."""
        if self._read_fd < 0:
            return False
        try:
            data = os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._on_data(data)
            return True
        self.close_read()
        self._on_end()
        return False

    def drain(self, limit: int) -> None:
        """Read what is there, to the end or to `limit` bytes: it never waits for somebody who still holds the pipe."""
        for _ in range(limit // CHUNK + 1):
            if not self._read():
                return

    def write(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Write as much as the pipe takes now. Raises `OSError` when nobody can read it any more."""
        if self._write_fd < 0:
            raise BrokenPipeError
        try:
            if len(buffers) == 1:
                return os.write(self._write_fd, buffers[0])
            return os.writev(self._write_fd, buffers)
        except BlockingIOError:
            return 0

    def when_writable(self, callback: Callable[[], bool]) -> None:
        """Call back when there is room again, as long as the callback says that it has more to write."""
        self._reactor.on_writable(self._write_fd, callback)

    def close_write(self) -> None:
        """The child reads the end of its stdin."""
        if self._write_fd >= 0:
            self._reactor.release(self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1

    def close_read(self) -> None:
        """Read no more."""
        if self._read_fd >= 0:
            self._reactor.release(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1
