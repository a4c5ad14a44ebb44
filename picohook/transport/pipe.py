"""The pipes to a process's standard input and from its outputs. No function here blocks or waits."""

import fcntl
import os
import stat
import weakref
from collections.abc import Callable, Sequence

from ..protocol.raw_line import RawLine, RawLineSplitter
from ..wire.platforms import pipe_size_command
from .reactor import Reactor

CHUNK = 65536
"""The usual capacity of a pipe, and the most bytes that are read at once from one."""
WIDE = 512 * 1024
"""The capacity of a pipe for a long line. More is slower: what waits in the pipe for so long has left the processor's cache."""
MOST_WIDE = 16
"""The most pipes that may be wide at once. Linux limits the total capacity of a user's pipes: beyond it every new pipe is tiny.
These pipes use an eighth of the limit at most."""
_wide: set[int] = set()
"""The descriptors of the wide pipes."""
_open: "weakref.WeakSet[LinePipe]" = weakref.WeakSet()


class LinePipe:
    """The host's ends of a process's stdin and stdout, or of its stderr alone. It owns the descriptors."""

    __slots__ = (
        "__weakref__",
        "_came",
        "_chunk",
        "_on_data",
        "_on_end",
        "_reactor",
        "_read_fd",
        "_resizable",
        "_sent",
        "_write_fd",
    )

    def __init__(
        self,
        reactor: Reactor,
        read_fd: int,
        write_fd: int | None,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        *,
        tap: Callable[[RawLine], None] | None = None,
        name: str = "",
    ) -> None:
        """`tap` is called with each line, in both directions, of the hook `name`."""
        self._reactor = reactor
        self._read_fd = read_fd
        self._write_fd = -1 if write_fd is None else write_fd
        self._chunk = CHUNK if write_fd is not None else CHUNK // 8
        """The most bytes that are read at once. The lines of stderr may be many, and are looked at one by one."""
        self._on_data = on_data
        self._on_end = on_end
        self._sent = None if tap is None else RawLineSplitter(name, tap, sent=True)
        self._came = None if tap is None else RawLineSplitter(name, tap, sent=False)
        self._resizable = write_fd is not None and stat.S_ISFIFO(os.fstat(write_fd).st_mode)
        """Whether they are pipes for lines of the protocol, and not sockets."""
        _open.add(self)
        reactor.on_readable(read_fd, self._read)

    def _read(self) -> bool:
        """Read once. Returns whether there may be more."""
        if self._read_fd < 0:
            return False
        try:
            data = os.read(self._read_fd, self._chunk)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            if len(data) >= CHUNK and self._resizable:
                _widen(self._read_fd)
            if self._came is not None:
                self._came.take(data)
            self._on_data(data)
            return True
        self.close_read()
        self._on_end()
        return False

    def drain(self, limit: int) -> None:
        """Read what the pipe has, up to `limit` bytes. Does not wait for another process that holds the pipe open."""
        for _ in range(limit // self._chunk + 1):
            if not self._read():
                return

    def write(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Write as much as the pipe takes now. Returns the number of bytes. Raises `OSError` if the reader is gone."""
        if self._write_fd < 0:
            raise BrokenPipeError
        try:
            written = os.write(self._write_fd, buffers[0]) if len(buffers) == 1 else os.writev(self._write_fd, buffers)
        except BlockingIOError:
            return 0
        if self._sent is not None:
            self._sent.take(b"".join(buffers)[:written])
        return written

    def widen(self) -> bool:
        """Enlarge the full pipe to stdin for good. Returns whether it was enlarged.

        Use it for a line longer than the capacity of a pipe. Otherwise the two sides have to take turns every 64 KiB.
        """
        return self._resizable and _widen(self._write_fd)

    def when_writable(self, callback: Callable[[], bool]) -> None:
        """Call back whenever the pipe has room, until the callback returns False: then it has no more to write."""
        self._reactor.on_writable(self._write_fd, callback)

    def close_write(self) -> None:
        if self._write_fd >= 0:
            self._reactor.release(self._write_fd)
            _wide.discard(self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1
            if self._sent is not None:
                self._sent.close()

    def close(self) -> None:
        """Close both ends and drop the callbacks, so that the objects they hold are freed at once."""
        self.close_write()
        self.close_read()
        self._on_data = self._on_end = _ignore
        self._came = self._sent = None

    def close_in_child(self) -> None:
        """Close both ends in a forked child. This leaves the event loop alone, which the parent may use."""
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1

    def close_read(self) -> None:
        """Close the process's stdout, and stop reading."""
        if self._read_fd >= 0:
            self._reactor.release(self._read_fd)
            _wide.discard(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1
            if self._came is not None:
                self._came.close()


def _forked() -> None:
    """Close all pipes in a forked child: they belong to the parent, and the child must not write to them."""
    _wide.clear()
    for pipe in tuple(_open):
        pipe.close_in_child()


os.register_at_fork(after_in_child=_forked)


def _ignore(*_: object) -> None:
    """The callback of a closed pipe."""


def _widen(fd: int) -> bool:
    if not pipe_size_command() or fd in _wide or len(_wide) >= MOST_WIDE:
        return False
    try:
        fcntl.fcntl(fd, pipe_size_command(), WIDE)
    except OSError:  # the user's pipes are at their limit
        return False
    _wide.add(fd)
    return True
