"""Two file descriptors of a child process, as bytes in and bytes out. Never blocks, never waits."""

from __future__ import annotations

import fcntl
import functools
import os
import stat
import weakref
from typing import TYPE_CHECKING, Final

from ..protocol.raw_line import RawLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.raw_line import RawLine
    from .reactor import Reactor

CHUNK = 65536
"""A pipe holds as much; larger reads cost more than they bring."""
WIDE = 1024 * 1024
"""As much as a pipe can be made to hold by anybody."""
MOST_WIDE = 16
"""Pipes of this process that are wide at once. What a user's pipes may hold is bounded, all together, and past that bound every
new one is tiny: these are a quarter of it."""
_SET_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", 0)
_wide: set[int] = set()
"""The descriptors whose pipes are wide."""
_open: weakref.WeakSet[LinePipe] = weakref.WeakSet()


class LinePipe:
    """The parent's ends of a child's stdin and stdout. Owns both descriptors."""

    __slots__ = ("__weakref__", "_on_data", "_on_end", "_reactor", "_read_fd", "_resizable", "_write_fd")

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
        self._resizable = stat.S_ISFIFO(os.fstat(write_fd).st_mode)
        """Whether they are pipes, and not sockets."""
        _open.add(self)
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
            if (_wide or len(data) == CHUNK) and self._resizable:
                _narrow(self._write_fd)  # what writes has read, most likely
                (_widen if len(data) == CHUNK else _narrow)(self._read_fd)
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

    def widen(self) -> bool:
        """Let the pipe that is written to, and is full, hold more, until the child writes; whether it holds more now.

        For lines that are longer than a pipe: without it, the two sides take turns at every 64 KiB of them.
        """
        return self._resizable and _widen(self._write_fd)

    def when_writable(self, callback: Callable[[], bool]) -> None:
        """Call back when there is room again, as long as the callback says that it has more to write."""
        self._reactor.on_writable(self._write_fd, callback)

    def close_write(self) -> None:
        """The child reads the end of its stdin."""
        if self._write_fd >= 0:
            self._reactor.release(self._write_fd)
            _wide.discard(self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1

    def close(self) -> None:
        """Close both ends, and let go of the callbacks: whoever made this and is held by them is freed at once."""
        self.close_write()
        self.close_read()
        self._on_data, self._on_end = _unheard, _unseen

    def disown(self) -> None:
        """Close this process's copies of both ends. The event loop is not told: its parent may use the same one."""
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1

    def close_read(self) -> None:
        """Read no more."""
        if self._read_fd >= 0:
            self._reactor.release(self._read_fd)
            _wide.discard(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1


class TappedPipe(LinePipe):
    """A pipe whose lines are told to somebody, both ways."""

    __slots__ = ("_came", "_sent")

    def __init__(
        self,
        tap: Callable[[RawLine], None],
        name: str,
        reactor: Reactor,
        read_fd: int,
        write_fd: int,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._sent = RawLines(name, tap, sent=True)
        self._came = came = RawLines(name, tap, sent=False)

        def received(data: bytes) -> None:
            came.take(data)
            on_data(data)

        super().__init__(reactor, read_fd, write_fd, on_data=received, on_end=on_end)

    def write(self, buffers: Sequence[bytes | memoryview]) -> int:
        written = left = super().write(buffers)
        for buffer in buffers:
            self._sent.take(buffer[:left])
            left -= min(left, len(buffer))
        return written

    def close_write(self) -> None:
        super().close_write()
        self._sent.close()

    def close_read(self) -> None:
        super().close_read()
        self._came.close()


def pipe_kind(tap: Callable[[RawLine], None] | None, name: str) -> Callable[..., LinePipe]:
    """What makes the pipes of this hook: tapped ones, if somebody wants to see its lines."""
    return LinePipe if tap is None else functools.partial(TappedPipe, tap, name)


def _forked() -> None:
    """In a child that this process forked: the pipes are its parent's, and nothing of the child's may get into them."""
    _wide.clear()
    for pipe in tuple(_open):
        pipe.disown()


os.register_at_fork(after_in_child=_forked)


def _unheard(_: bytes) -> None:
    """Nobody listens any more."""


def _unseen() -> None:
    """Nobody looks any more."""


def _widen(fd: int) -> bool:
    if not _SET_SIZE or fd in _wide:
        return False
    if len(_wide) >= MOST_WIDE:
        for other in tuple(_wide):  # some hooks read, and write nothing
            _narrow(other)
    if len(_wide) >= MOST_WIDE or not _resize(fd, WIDE):
        return False
    _wide.add(fd)
    return True


def _narrow(fd: int) -> None:
    if fd in _wide and _resize(fd, CHUNK):
        _wide.discard(fd)


def _resize(fd: int, size: int) -> bool:
    try:
        fcntl.fcntl(fd, _SET_SIZE, size)
    except OSError:  # it is no pipe, the user's pipes hold too much, or this one does
        return False
    return True
