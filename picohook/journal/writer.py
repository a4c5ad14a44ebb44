"""Writes a file in a thread of its own, so that the host never waits for a disk."""

import contextlib
import fcntl
import os
import stat
import threading

PAUSE = 0.05
"""Seconds in which lines are gathered before they are written."""
ENOUGH = 256 * 1024
"""Once this many bytes wait, they are written without gathering more."""
MAX_WAITING = 64 * 1024 * 1024
"""The most bytes that may wait. With more, the disk is too slow, and the file is given up."""
CLOSE_TIMEOUT = 5.0
"""Seconds in which the lines that wait at the end have to be written."""


class BackgroundWriter:
    """Takes whole lines. After the first failure it takes no more, so the file has every line up to the failure."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._written = 0
        self._lines: list[bytes] = []
        self._size = 0
        self._changed = threading.Condition()
        self._closing = False
        self.lost = 0
        """The number of lines that are not in the file."""
        self.failure = ""
        """The reason why lines are lost; empty if none are."""
        self._thread = threading.Thread(target=self._run, name="picohook record", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Write a line soon, without waiting. After `close` the line is dropped."""
        with self._changed:
            if self._closing:
                return
            if self.failure:
                self.lost += 1
                return
            self._lines.append(line)
            self._size += len(line)
            if self._size > MAX_WAITING:
                self._give_up("lines come in faster than they can be written")
            if len(self._lines) == 1 or self._size > ENOUGH:
                self._changed.notify()

    def close(self) -> None:
        """Write the lines that wait, and close the file. Takes at most `CLOSE_TIMEOUT`, even if the disk hangs."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT)
        with self._changed:
            if self._thread.is_alive() and not self.failure:
                self._give_up("the last lines were not written in time")

    def _run(self) -> None:
        done = False
        while not done:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closing)
                self._changed.wait_for(lambda: self._size > ENOUGH or self._closing, PAUSE)
                done = self._closing
                lines, self._lines, self._size = self._lines, [], 0
            self._write(b"".join(lines))
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a process that is just being started may have a copy
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            whole = data.rfind(b"\n", 0, len(data) - len(left)) + 1
            if self._regular:
                # Cut an incomplete line off, because the next line would be appended to it.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._written + whole)
            with self._changed:
                self.lost += data.count(b"\n", whole)
                self._give_up(error.strerror or str(error))
        else:
            self._written += len(data)

    def _give_up(self, why: str) -> None:
        """Drop the lines that wait. The lock is held."""
        self.failure = self.failure or why
        self.lost += len(self._lines)
        self._lines, self._size = [], 0
