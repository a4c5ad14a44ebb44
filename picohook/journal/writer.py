"""Writes a file in a thread of its own, so that the host never waits for a disk."""

from __future__ import annotations

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
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self.lost = 0
        """The number of lines that are not in the file."""
        self.failure = ""
        """The reason why lines are lost; empty if none are."""
        self._thread = threading.Thread(target=self._run, name="picohook record", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Write a line soon, without waiting. After `close` the line is dropped."""
        if self._closing:
            return
        with self._lock:
            if self.failure:
                self.lost += 1
                return
            self._lines.append(line)
            self._size += len(line)
            if self._size > MAX_WAITING:
                self._give_up("lines come in faster than they can be written", self._lines)
                self._lines, self._size = [], 0
        self._some.set()
        if self._size > ENOUGH:
            self._hurry.set()

    def close(self) -> None:
        """Write the lines that wait, and close the file. Takes at most `CLOSE_TIMEOUT`, even if the disk hangs."""
        self._closing = True
        self._hurry.set()
        self._some.set()
        self._thread.join(CLOSE_TIMEOUT)
        with self._lock:
            if self._thread.is_alive() and not self.failure:
                self._give_up("the last lines were not written in time", self._lines)

    def _run(self) -> None:
        done = False
        while not done:
            self._some.wait()
            self._hurry.wait(PAUSE)
            with self._lock:
                done = self._closing
                lines, self._lines, self._size = self._lines, [], 0
                self._some.clear()
                if not done:
                    self._hurry.clear()
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
            with self._lock:
                self._give_up(error.strerror or str(error), data[whole:].splitlines(), self._lines)
                self._lines, self._size = [], 0
        else:
            self._written += len(data)

    def _give_up(self, why: str, *lost: list[bytes]) -> None:
        self.failure = self.failure or why
        self.lost += sum(map(len, lost))
