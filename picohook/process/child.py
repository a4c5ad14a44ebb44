"""One child process: start it, hear what it says on stderr, see it end, make it end."""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import TYPE_CHECKING

import anyio

from ..errors import HookCrashedError
from ..observe.log import Allowance
from ..wire.text import escape
from .spawn import KILL_WAIT, TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..observe.log import Log
    from ..transport.reactor import Reactor
    from .plan import Plan
    from .spawn import Process, Spawner

STDERR_TAIL = 8192
"""Bytes of stderr that are kept for the message about a crash."""
STDERR_LINES = 50
"""Lines of stderr that are logged in one window of `STDERR_WINDOW` seconds; the rest is counted."""
STDERR_WINDOW = 1.0
STDERR_LAST_READS = 64
"""Reads after the end: what the process left in the pipe, and no more of what a survivor may still pour in."""


class SpawnDelayedError(Exception):
    """The machine has no descriptor, process or memory left: worth another try later."""


class Child:
    """A running process, the leader of its own session, with its three standard descriptors on pipes.

    Its end is seen through the kernel's own handle on the process and not through the end of its output, which a grandchild
    may hold open. Until `exited` is set its pid is not reaped, so that no signal can reach a stranger with the same number.
    """

    def __init__(
        self,
        reactor: Reactor,
        process: Process,
        pipes: tuple[int, int, int],
        *,
        log: Log,
        on_exit: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._owner = os.getpid()
        self._process = process
        self.stdin, self.stdout, self._stderr = pipes
        self._log = log
        self._on_exit = on_exit
        self._tail = b""
        self._line = b""
        self._shown = Allowance(STDERR_LINES, STDERR_WINDOW)
        self._suppressed = 0
        self.exited = anyio.Event()
        for fd in pipes:
            os.set_blocking(fd, False)
        reactor.on_readable(self._stderr, self._stderr_readable)
        process.when_ended(self._exit_seen)

    @classmethod
    async def start(
        cls,
        reactor: Reactor,
        spawner: Spawner,
        plan: Plan,
        *,
        deadline: float,
        name: str,
        log: Log,
        on_exit: Callable[[], None],
    ) -> Child:
        """Start a process. Cancelled, or at the deadline (`TimeoutError`), it leaves none.

        `on_exit` is called in a later round of the event loop, when all that it wrote to stderr is read.
        """
        pipes: list[int] = []
        stream = _sockets if plan.stdio == "socket" else os.pipe
        try:
            for make in (stream, stream, os.pipe):
                pipes += make()
            theirs, ours = (pipes[0], pipes[3], pipes[5]), (pipes[1], pipes[2], pipes[4])
            process = await spawner.spawn(plan, theirs, deadline)
        except BaseException as error:
            for fd in pipes:
                os.close(fd)
            if isinstance(error, TimeoutError) or not isinstance(error, OSError | ValueError):
                raise
            if isinstance(error, OSError) and error.errno in TRANSIENT:
                raise SpawnDelayedError(error.strerror or str(error)) from None
            raise HookCrashedError(f"cannot be started: {_why(error)}", hook=name) from None
        for fd in theirs:
            os.close(fd)
        return cls(reactor, process, ours, log=log, on_exit=on_exit)

    @property
    def pid(self) -> int:
        """The process, and its group and session."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: negative for a signal, None while it runs."""
        return self._process.exit_code

    @property
    def containment(self) -> str:
        """The tier that holds its descendants."""
        return self._process.tier

    @property
    def stderr_tail(self) -> str:
        """The end of what it said on stderr, escaped line by line."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return "\n".join(escape(line) for line in lines)

    def describe_exit(self) -> str:
        """How it ended, for people."""
        code = self.exit_code
        if code is None:
            return "did not end"
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def signal(self, number: int) -> None:
        """Signal its whole process group."""
        if not self.exited.is_set():
            self._process.signal(number)

    async def stop(self, steps: list[tuple[int | None, float]]) -> None:
        """Go down the ladder: each step sends a signal (or None: just waits) and waits so long; at its end is SIGKILL.

        Shielded: a cancelled host still takes its children down, and every wait here is bounded.
        """
        if os.getpid() != self._owner:  # a forked child of the host's: the process is not its own
            return
        with anyio.CancelScope(shield=True):
            for number, patience in [*steps, (signal.SIGKILL, KILL_WAIT)]:
                if self.exited.is_set():
                    return
                if number is not None:
                    self.signal(number)
                with anyio.move_on_after(patience):
                    await self.exited.wait()
            if not self.exited.is_set():
                self._process.insist()
                with anyio.move_on_after(KILL_WAIT):
                    await self.exited.wait()
            if not self.exited.is_set():
                self._log.error("survived SIGKILL: it is stuck in the kernel", pid=self.pid)

    def _exit_seen(self) -> None:
        for _ in range(STDERR_LAST_READS):
            if not self._read_stderr():
                break
        self._close_stderr()
        self.exited.set()
        self._on_exit()
        del self._on_exit  # it is called once, and may hold who has this

    def _stderr_readable(self) -> None:
        self._read_stderr()

    def _read_stderr(self) -> bool:
        if self._stderr < 0:
            return False
        try:
            data = os.read(self._stderr, STDERR_TAIL)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close_stderr()
            return False
        self._tail = (self._tail + data)[-STDERR_TAIL:]
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > STDERR_TAIL:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._log_stderr(line)
        return True

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            self._reactor.release(self._stderr)
            os.close(self._stderr)
            self._stderr = -1
            if self._line:
                self._log_stderr(self._line)
            self._log_suppressed()

    def _log_stderr(self, line: bytes) -> None:
        if self._shown.take(self._reactor.now()):
            self._log_suppressed()
            self._log.info("stderr", line=line.decode("utf-8", "replace").rstrip("\r"))
        else:
            self._suppressed += 1

    def _log_suppressed(self) -> None:
        if self._suppressed:
            self._log.info("stderr, not shown", lines=self._suppressed)
            self._suppressed = 0


def _sockets() -> tuple[int, int]:
    """What `os.pipe` gives, as two sockets: nobody can open one of them by its name in /proc, as a pipe can be opened."""
    readable, writable = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    readable.shutdown(socket.SHUT_WR)  # one way, as in a pipe
    return readable.detach(), writable.detach()


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its arguments and environment are too long for the system"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "it is no program for this machine, and has no #! line that names an interpreter"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
