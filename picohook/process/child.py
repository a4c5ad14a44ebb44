"""One child process: start it, hear what it says on stderr, see it end, make it end."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING

import anyio

from ..errors import HookCrashedError
from ..log import Allowance
from ..text import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..log import Log
    from ..transport.reactor import Reactor
    from .plan import Plan

STDERR_TAIL = 8192
"""Bytes of stderr that are kept for the message about a crash."""
STDERR_LINES = 50
"""Lines of stderr that are logged in one window of `STDERR_WINDOW` seconds; the rest is counted."""
STDERR_WINDOW = 1.0
STDERR_LAST_READS = 64
"""Reads after the end: what the process left in the pipe, and no more of what a survivor may still pour in."""
KILL_WAIT = 2.0
"""How long a SIGKILL may take to be seen: only a process stuck in the kernel needs longer."""
TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""The machine's trouble, not the hook's."""


class SpawnDelayedError(Exception):
    """The machine has no descriptor, process or memory left: worth another try later."""


class Child:
    """A running process, the leader of its own session, with its three standard descriptors on pipes.

    Its end is seen through the kernel's own handle on the process and not through the end of its output, which a grandchild
    may hold open. Until `exited` is set its pid is not reaped, so that no signal can reach a stranger with the same number.
    """

    def __init__(self, reactor: Reactor, plan: Plan, *, name: str, log: Log, on_exit: Callable[[], None]) -> None:
        self._reactor = reactor
        self._log = log
        self._on_exit = on_exit
        self._tail = b""
        self._line = b""
        self._shown = Allowance(STDERR_LINES, STDERR_WINDOW)
        self._suppressed = 0
        self.exited = anyio.Event()
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes += os.pipe()
            stdin, self.stdin, self.stdout, stdout, self._stderr, stderr = pipes
            self._process = subprocess.Popen(  # noqa: S603 - running the command that the config names is the point
                plan.argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=plan.cwd,
                env=dict(plan.env),
                start_new_session=True,
            )
            for fd in (stdin, stdout, stderr):
                os.close(fd)
                pipes.remove(fd)
            for fd in pipes:
                os.set_blocking(fd, False)
            try:
                self._exit_fd = _exit_handle(self._process)
            except BaseException:
                _signal_group(self.pid, signal.SIGKILL)
                self._process.wait()
                raise
        except (OSError, ValueError) as error:
            for fd in pipes:
                os.close(fd)
            if isinstance(error, OSError) and error.errno in TRANSIENT:
                raise SpawnDelayedError(str(error)) from None
            raise HookCrashedError(f"cannot be started: {_why(error)}", hook=name) from None
        reactor.on_readable(self._stderr, self._stderr_readable)

        def exit_seen() -> None:
            self._exit_seen()

        # Only the event loop holds this function: if it is gone before the process is, the loop was closed over it.
        self._abandoned = weakref.finalize(exit_seen, _kill_abandoned, self._process, os.getpid())
        reactor.on_readable(self._exit_fd, exit_seen)

    @property
    def pid(self) -> int:
        """The process, and its group and session."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: negative for a signal, None while it runs."""
        return self._process.returncode

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
            _signal_group(self.pid, number)

    async def stop(self, steps: list[tuple[int | None, float]]) -> None:
        """Go down the ladder: each step sends a signal (or None: just waits) and waits so long; at its end is SIGKILL.

        Shielded: a cancelled host still takes its children down, and every wait here is bounded.
        """
        with anyio.CancelScope(shield=True):
            for number, patience in [*steps, (signal.SIGKILL, KILL_WAIT)]:
                if self.exited.is_set():
                    return
                if number is not None:
                    self.signal(number)
                with anyio.move_on_after(patience):
                    await self.exited.wait()
            if not self.exited.is_set():
                self._log.error("survived SIGKILL: it is stuck in the kernel", pid=self.pid)

    def _exit_seen(self) -> None:
        self._reactor.release(self._exit_fd)
        os.close(self._exit_fd)
        _signal_group(self.pid, signal.SIGKILL)
        self._process.wait()
        self._abandoned.detach()
        for _ in range(STDERR_LAST_READS):
            if not self._read_stderr():
                break
        self._close_stderr()
        self.exited.set()
        self._on_exit()

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


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # Nobody is left; or, on macOS, only zombies are.
        pass


def _kill_abandoned(process: subprocess.Popen[bytes], owner: int) -> None:
    """Its event loop was closed over it, or the interpreter ends: nobody is left to take it down in steps."""
    if os.getpid() != owner or process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILL_WAIT)


def _exit_handle(process: subprocess.Popen[bytes]) -> int:
    """A descriptor that becomes readable when the process has ended, and leaves it to us to reap it."""
    if hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno not in {errno.ENOSYS, errno.EPERM}:
                raise
    readable, writable = os.pipe()

    def wait() -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        os.close(writable)

    try:
        threading.Thread(target=wait, name=f"picohook wait {process.pid}", daemon=True).start()
    except RuntimeError as error:
        os.close(readable)
        os.close(writable)
        raise OSError(errno.EAGAIN, str(error)) from None
    return readable


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its arguments and environment are too long for the system"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "it is no program for this machine, and has no #! line that names an interpreter"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
