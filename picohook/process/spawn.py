"""Starting a process: the seam between a `Child` and how it comes to be. Directly here, by a launcher in `containment`."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..transport.reactor import Reactor
    from .plan import Plan

    Streams = tuple[int, int, int]

TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""The machine's trouble, not the hook's."""
KILL_WAIT = 2.0
"""How long a SIGKILL may take to be seen: only a process stuck in the kernel needs longer."""


class NotAvailableError(ValueError):
    """What was asked for, this machine cannot give."""


class Process(Protocol):
    """One that was started: the leader of its own session and process group."""

    @property
    def pid(self) -> int:
        """Its number, as the host sees it."""

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: negative for a signal, None until `when_ended` calls back."""

    @property
    def tier(self) -> str:
        """What holds its descendants; see `containment`."""

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once, in a later round of the event loop, when it has ended and its group was killed."""

    def signal(self, number: int) -> None:
        """Signal its whole group, if it has not ended."""

    def insist(self) -> None:
        """It was killed, and is not seen to have ended: do what else can be done."""


class Spawner(Protocol):
    """How processes are started."""

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> Process:
        """Start a process on these three descriptors, which stay the caller's.

        Raises `OSError`, `ValueError`, or `TimeoutError`. Then, and when it is cancelled, no process is left.
        """


class Direct:
    """Starts processes as children of this one. What leaves a process's group is not found again."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> Process:
        """Start a process; nothing here waits."""
        del deadline
        return _Own(self._reactor, plan, streams)


class _Own:
    """A child of this process."""

    tier = "group"

    def __init__(self, reactor: Reactor, plan: Plan, streams: Streams) -> None:
        self._reactor = reactor
        itself = () if plan.program is None else (plan.program.descriptor,)
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - running the command that the config names is the point
            plan.argv,
            executable=f"/proc/self/fd/{itself[0]}" if itself else None,
            pass_fds=itself,  # it keeps this one descriptor more
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=plan.cwd,
            env=dict(plan.env),
            start_new_session=True,
        )
        try:
            self._exit_fd = _exit_handle(self._process)
        except BaseException:
            _signal_group(self.pid, signal.SIGKILL)
            self._process.wait()
            raise
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def when_ended(self, callback: Callable[[], None]) -> None:
        def ended() -> None:
            self._reactor.release(self._exit_fd)
            os.close(self._exit_fd)
            _signal_group(self.pid, signal.SIGKILL)  # it is not reaped yet: the number is still its own
            self._process.wait()
            self._ended = True
            self._abandoned.detach()
            callback()

        # Only the event loop holds this function: if it is gone before the process is, the loop was closed over it.
        self._abandoned = weakref.finalize(ended, _kill_abandoned, self._process, os.getpid())
        self._reactor.on_readable(self._exit_fd, ended)

    def signal(self, number: int) -> None:
        if not self._ended and os.getpid() == self._owner:
            _signal_group(self.pid, number)

    def insist(self) -> None:
        """Nothing: it is stuck in the kernel."""


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
