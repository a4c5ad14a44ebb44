"""The pipes of a hook, for a program that waits for its answers. Standard library only: the SDK and the kit share it."""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .platforms import exit_descriptor

CHUNK = 64 * 1024


class Pipes:
    """The output and the input of a hook. No call blocks for longer than it is told."""

    def __init__(self, reads: int, writes: int, take: Callable[[bytes], None]) -> None:
        """`take` gets each piece of the output, and b"" at its end."""
        self.over = False
        """Whether the output has ended."""
        self._reads = reads
        self._writes = writes
        self._take = take
        for end in (reads, writes):
            os.set_blocking(end, False)

    def until(self, done: Callable[[], bool], seconds: float, *, writing: bool = False) -> bool:
        """Read until `done` is true, the output has ended, or the time has passed. Returns whether `done` is true."""
        deadline = time.monotonic() + seconds
        while not done():
            if self.over:
                return False
            poll = select.poll()
            poll.register(self._reads, select.POLLIN)
            if writing:
                poll.register(self._writes, select.POLLOUT)
            ready = {end for end, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)}
            if self._reads in ready:
                data = os.read(self._reads, CHUNK)
                self.over = not data
                self._take(data)
            if not ready:
                return False
        return True

    def write(self, data: bytes, seconds: float) -> bool:
        """Write, and read meanwhile. Returns whether all was written. Raises `BrokenPipeError` if the input is closed."""
        left = memoryview(data)

        def written() -> bool:
            nonlocal left
            with suppress(BlockingIOError):
                left = left[os.write(self._writes, left) :]
            return not left

        return self.until(written, seconds, writing=True)


class Started:
    """A process of a hook in a process group of its own. Its output on stderr is kept in a file."""

    def __init__(self, command: Sequence[str], take: Callable[[bytes], None], **where: Any) -> None:
        """`where` has settings of `subprocess.Popen`. Raises `OSError`, or `ValueError` for a command that is none."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        try:
            self.process = subprocess.Popen(  # noqa: S603 - the command of the caller
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
                **where,
            )
        except BaseException:
            self._errors.close()
            raise
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        self.stdin, self._stdout = stdin, stdout
        try:
            self._exit = exit_descriptor(self.process)
        except BaseException:
            self._end()
            raise
        self.pipes = Pipes(stdout.fileno(), stdin.fileno(), take)

    @property
    def stderr(self) -> str:
        """Its output on stderr so far."""
        file = self._errors.fileno()
        # A plain read would move the position at which the process writes.
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "backslashreplace")

    def wait(self, seconds: float) -> int | None:
        """Returns its exit code, as in `subprocess`; None if it still runs after so long. Its group ends with it."""
        if self.process.returncode is None and _is_readable(self._exit, seconds):
            self._kill()
        return self.process.returncode

    def close(self) -> None:
        """Kill its process group, wait for it, and close all files."""
        self._end()
        os.close(self._exit)

    def _end(self) -> None:
        self._kill()
        for stream in (self.stdin, self._stdout, self._errors):
            stream.close()

    def _kill(self) -> None:
        if self.process.returncode is None:  # otherwise the number may be another process's by now
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))
