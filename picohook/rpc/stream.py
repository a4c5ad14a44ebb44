"""The bytes of one connection: read with pauses, and written through a queue. Nothing here waits or raises.

The two descriptors are a socket's, or standard input and output, which may be files or terminals.
"""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..transport.reactor import Reactor

CHUNK = 16384
"""Bytes that are read at once. All requests in them are begun in one piece, and wrong ones take long to explain."""
LINES_AT_ONCE = 64
MOST_DRAINED = 1 << 20
"""The most bytes that a pipe can have when its writer has ended."""


class Stream:
    """Reads from one descriptor and writes to the other. It owns both."""

    def __init__(
        self,
        reactor: Reactor,
        read_fd: int,
        write_fd: int,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_broken: Callable[[], None],
        on_written: Callable[[], None],
    ) -> None:
        self.unsent = 0
        """Bytes that wait to be written."""
        self.reading = False
        """Whether it reads, and is not paused."""
        self.broken = False
        """Whether the other side has gone, or reading or writing failed."""
        self.failure = ""
        """The reason why reading or writing failed; empty if the other side has gone."""
        self._reactor = reactor
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_data = on_data
        self._on_end = on_end
        self._on_broken = on_broken
        self._on_written = on_written
        self._out: deque[bytes | memoryview] = deque()
        self._ended = False
        self._closing_write = False
        self._scheduled = False
        self._blocked = False
        self._emptied: anyio.Event | None = None
        self._pollable = _is_pipe(read_fd) or os.isatty(read_fd)
        self._before = [(fd, os.get_blocking(fd)) for fd in {read_fd, write_fd}]
        for fd, _ in self._before:
            if _is_pipe(fd):  # a file or a terminal is shared with other programs, and never blocks for long
                os.set_blocking(fd, False)

    # Reading.

    def read_on(self) -> None:
        """Read until it is paused."""
        if self.reading or self._ended:
            return
        self.reading = True
        if self._pollable:
            self._reactor.on_readable(self._read_fd, self._readable)
        else:
            self._reactor.soon(self._read_file)

    def pause(self) -> None:
        """Stop reading until `read_on`."""
        if self.reading:
            self.reading = False
            self._reactor.release(self._read_fd)

    def _read_file(self) -> None:
        if self.reading:
            self._readable()
            self._reactor.soon(self._read_file)

    def drain(self) -> None:
        """Read what is there. Does not wait for another process that holds the other end open."""
        for _ in range(MOST_DRAINED // CHUNK):
            self.read_on()
            if not self._readable():
                break

    def _readable(self) -> bool:
        """Read once. Returns whether there may be more."""
        if not self.reading:
            return False
        try:
            data = os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            self._fail("input cannot be read", error)
            return False
        if data:
            self._on_data(data)
            return True
        self.pause()
        self._ended = True
        if self._write_fd >= 0:
            self._look_at_reader()
        if not self.broken:
            self._on_end()  # the other side may still be reading
        return False

    def _look_at_reader(self) -> None:
        """Find out whether the reader has gone, or watch for that."""
        if _hung_up(self._write_fd):
            self._break()
            return
        if not os.path.samestat(os.fstat(self._read_fd), os.fstat(self._write_fd)) and _is_pipe(self._write_fd):
            self._reactor.on_readable(self._write_fd, self._check_reader)

    def _check_reader(self) -> None:
        """Called when the write end is readable, which reports that the reader has gone."""
        if _hung_up(self._write_fd):
            self._break()
        self._reactor.release(self._write_fd)
        if self._blocked:
            self._reactor.on_writable(self._write_fd, self._writable)

    # Writing.

    def send(self, line: bytes, *, at_once: bool = False) -> None:
        """Write a line: at once, or together with the other lines of this pass of the event loop."""
        if self.broken or self._closing_write:
            return
        rest: bytes | memoryview = line
        if at_once and not self._out:
            try:
                written = os.write(self._write_fd, line)
            except OSError:
                written = 0  # `_write` meets the error again
            if written == len(line):
                return
            rest = memoryview(line)[written:]
        self._out.append(rest)
        self.unsent += len(rest)
        if self._blocked:
            return
        if at_once:
            self._write()
        elif not self._scheduled:
            self._scheduled = True
            self._reactor.soon(self._write_scheduled)

    def close_write(self) -> None:
        """Close the write end once everything is written. Lines that are sent later are dropped."""
        self._closing_write = True
        if not self._out and self._write_fd >= 0:
            self._reactor.release(self._write_fd)
            os.close(self._write_fd)
            self._before = [(fd, blocking) for fd, blocking in self._before if fd != self._write_fd]
            self._write_fd = -1

    async def emptied(self) -> None:
        """Returns when everything is written, or the reader has gone."""
        if self._out:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    def _write_scheduled(self) -> None:
        self._scheduled = False
        if not self._blocked:
            self._write()

    def _write(self) -> None:
        if self._write_out() and not self._blocked:
            self._blocked = True
            self._reactor.on_writable(self._write_fd, self._writable)

    def _writable(self) -> bool:
        self._blocked = self._write_out()
        return self._blocked

    def _write_out(self) -> bool:
        """Write as much as there is room for. Returns whether more is left."""
        out = self._out
        while out and not self.broken:
            some = [*islice(out, LINES_AT_ONCE)]
            try:
                written = os.writev(self._write_fd, some)
            except BlockingIOError:
                return True
            except OSError as error:
                self._fail("output cannot be written", error)
                return False
            self.unsent -= written
            if not self.unsent:  # everything was written, as nearly always
                out.clear()
                break
            for line in some:
                if written < len(line):
                    out[0] = memoryview(line)[written:]
                    break
                written -= len(line)
                out.popleft()
        if self._emptied is not None:
            self._emptied.set()
        if self._closing_write:
            self.close_write()
        if not self.broken:
            self._on_written()
        return False

    # The end.

    def _fail(self, what: str, error: OSError) -> None:
        if not self.broken and not isinstance(error, ConnectionError):
            self.failure = f"{what}: {error.strerror}"
        self._break()

    def _break(self) -> None:
        if not self.broken:
            self.broken = True
            self._out.clear()
            self.unsent = 0
            if self._emptied is not None:
                self._emptied.set()
            self._on_broken()

    def close(self) -> None:
        """Close both descriptors, and drop the callbacks and the lines that were not written."""
        self.broken = True
        self.reading = False
        self._out.clear()
        self._on_data = self._on_end = self._on_broken = self._on_written = _closed
        for fd, blocking in self._before:
            self._reactor.release(fd)
            os.set_blocking(fd, blocking)
            os.close(fd)


def _closed(*_: object) -> None:
    """Replaces the callbacks of a closed stream."""


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
