"""One process of a hook: starts it, detects its end, and stops it."""

import errno
import os
import socket
from collections.abc import Callable, Sequence

import anyio

from ..observe.log import Log
from ..transport.reactor import Reactor
from ..wire.platforms import how_it_ended
from .kill import stop_in_steps
from .plan import Plan, raise_not_started
from .spawn import ProcessServices, SpawnedProcess
from .stderr import StderrReader

START_WAIT = 10.0
"""Seconds that the system may take to start a process. The time for its hello begins afterwards."""


class Child:
    """A running process, the leader of its own process group, with pipes as its three standard streams.

    The kernel's handle on the process reports its end. The end of its output would not do: a grandchild may hold that open.
    Until `exited` is set the process is not reaped, so no signal can reach another process with the same number.
    """

    def __init__(
        self,
        reactor: Reactor,
        process: SpawnedProcess,
        pipes: tuple[int, ...],
        *,
        log: Log,
        on_exit: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._owner = os.getpid()
        self._process = process
        self.stdin, self.stdout, *stderr = pipes
        self._log = log
        self._on_exit = on_exit
        self.exited = anyio.Event()
        for fd in pipes:
            os.set_blocking(fd, False)
        self._stderr = StderrReader(reactor, stderr[0], log) if stderr else None
        process.when_ended(self._exit_seen)

    @classmethod
    async def start(
        cls,
        host: ProcessServices,
        plan: Plan,
        *,
        deadline: float,
        name: str,
        on_exit: Callable[[], None],
        stderr: int | None = None,
    ) -> "Child":
        """Start a process. Its stderr is a pipe that is logged, or a copy of the descriptor `stderr`.

        Raises `HookCrashedError` if it cannot be started, and `TimeoutError` at the deadline. After an error or a cancellation
        no process is left. `on_exit` is called when the process has ended and its stderr was read, in a later round of the
        event loop.
        """
        pipes: list[int] = []
        stream = _sockets if plan.stdio == "socket" else os.pipe
        try:
            for make in (stream, stream):
                pipes += make()
            pipes += reversed(os.pipe()) if stderr is None else (os.dup(stderr),)
            theirs, ours = (pipes[0], pipes[3], pipes[4]), (pipes[1], pipes[2], *pipes[5:])
            process = await host.spawner.spawn(plan, theirs, deadline)
        except BaseException as error:
            for fd in pipes:
                os.close(fd)
            if isinstance(error, TimeoutError) or not isinstance(error, OSError | ValueError):
                raise
            raise_not_started(error, _why(error), name)
        for fd in theirs:
            os.close(fd)
        return cls(host.reactor, process, ours, log=host.log, on_exit=on_exit)

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, as in `subprocess`: negative for a signal, None while the process runs."""
        return self._process.exit_code

    @property
    def containment(self) -> str:
        """The tier of containment that holds its descendants."""
        return self._process.tier

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr, escaped line by line; empty if it is not read here."""
        return "" if self._stderr is None else self._stderr.tail

    def describe_exit(self) -> str:
        """Returns the end of the process, in words."""
        return "did not end" if self.exit_code is None else how_it_ended(self.exit_code)

    async def stop(self, steps: Sequence[tuple[int | None, float]]) -> None:
        """Stop the process in these steps, the last by SIGKILL; see `stop_in_steps`. Does nothing in a fork of the host."""
        if os.getpid() == self._owner and not await stop_in_steps(self._process, self.exited, steps):
            self._log.error("survived SIGKILL: it is stuck in the kernel", pid=self.pid)

    def _exit_seen(self) -> None:
        if self._stderr is not None:
            self._stderr.drain()
        self.exited.set()
        self._on_exit()
        del self._on_exit  # it is called once, and may hold the owner of this object


def _sockets() -> tuple[int, int]:
    """Two sockets, used as the ends of `os.pipe`. Unlike a pipe, they cannot be opened by their names in /proc."""
    readable, writable = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    readable.shutdown(socket.SHUT_WR)  # one direction, as in a pipe
    return readable.detach(), writable.detach()


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its arguments and environment are too long for the system"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "it is not a program for this machine, and has no #! line that names its interpreter"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
