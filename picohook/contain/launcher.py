"""The host's side of a launcher (`launcher_program.py`) and of the processes that it starts."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import signal
import socket
import struct
import termios
import weakref
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio

from ..process.kill import KILL_WAIT, kill_pidfd, stop_in_steps
from . import limits
from .launcher_start import (
    CLOSE_WAIT,
    TierUnavailableError,
    check_available,
    end_abandoned,
    new_mark,
    reap,
    start_launcher,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..observe.log import Log
    from ..process.plan import Plan
    from ..process.spawn import Streams
    from ..transport.reactor import Reactor, Waiter

READY_WAIT = 10.0
"""Seconds that a launcher may take to start. It usually takes a few hundredths of a second."""
STARTS_AT_ONCE = 32
"""The most starts that are sent at once. More would wait in the socket, where their descriptors count against a limit."""
MESSAGE = 4096


class Launcher:
    """One launcher of a host."""

    def __init__(self, reactor: Reactor, log: Log, tier: str) -> None:
        self.gone = False
        self.tier = tier
        self._owner = os.getpid()
        self._reactor = reactor
        self._log = log
        self._ids = count(1)
        self.processes: dict[int, LaunchedProcess] = {}
        self._starts = anyio.Semaphore(STARTS_AT_ONCE, fast_acquire=True)
        self._ready_by = reactor.now() + READY_WAIT
        self._decided = anyio.Event()
        self._unable: TierUnavailableError | None = None
        self._ended = anyio.Event()
        check_available(tier)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.pid, self._pidfd = start_launcher(theirs, tier)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        this = weakref.ref(self)

        def readable() -> None:
            launcher = this()
            if launcher is not None:
                launcher._receive()  # noqa: SLF001 - itself

        # Only the event loop holds this function. If it is freed before the launcher has ended, the loop was closed.
        self._abandoned = weakref.finalize(readable, end_abandoned, self._socket, self._pidfd, os.getpid())
        reactor.on_readable(self._socket.fileno(), readable)

    async def ready(self, deadline: float) -> None:
        """Wait until it serves. Raises `TierUnavailableError` if it cannot, and `TimeoutError` at the deadline."""
        if not self._decided.is_set():
            with anyio.move_on_after(max(0.0, min(self._ready_by, deadline) - self._reactor.now())):
                await self._decided.wait()
        if not self._decided.is_set():
            if self._reactor.now() < self._ready_by:
                raise TimeoutError
            self.kill()
            raise TierUnavailableError("the launcher did not start in time")
        if self._unable is not None:
            raise self._unable

    async def spawn(
        self, plan: Plan, streams: Streams, deadline: float, rows: Sequence[limits.Row] = (), group: str = ""
    ) -> LaunchedProcess:
        """Start a process as `Spawner.spawn` does, with resource limits and a control group."""
        mark = 0 if self.tier == "namespace" else new_mark()
        request = _request(plan, mark, rows, group)
        async with self._starts:
            number = next(self._ids)
            process = self.processes[number] = LaunchedProcess(self, self._reactor, number, mark, group)
            try:
                descriptors = streams if plan.program is None else (*streams, plan.program.descriptor)
                self._request_start(number, request, descriptors)
            except OSError:
                del self.processes[number]
                raise
            try:
                failure = await process.begun.wait(deadline)
            except BaseException:
                # This kills the launcher, too, if it waits for a file system that holds the program.
                await stop_in_steps(process, process.over, [])
                raise
        if failure is not None:
            raise failure
        return process

    async def aclose(self) -> None:
        """Stop it, and with it all remaining processes of its hooks."""
        if os.getpid() != self._owner:
            return
        if not self.gone:
            self._leave()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_WAIT):
                await self._ended.wait()
            if not self._ended.is_set():
                self.kill()
                with anyio.move_on_after(KILL_WAIT):
                    await self._ended.wait()

    def tell(self, text: str) -> None:
        """Send a message, if the launcher still runs."""
        with suppress(OSError):
            self._send(text)

    def is_deaf(self) -> bool:
        """Whether it has unread messages."""
        if self.gone or os.getpid() != self._owner:
            return False
        unread = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return unread != bytes(4)

    def kill(self) -> None:
        """Kill it. Its hooks end, as when it is closed."""
        if os.getpid() == self._owner:
            kill_pidfd(self._pidfd)

    def _request_start(self, number: int, request: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        file = os.memfd_create("picohook request")
        try:
            os.write(file, marshal.dumps(request))
            self._send(f"spawn {number}", (file, *descriptors))
        finally:
            os.close(file)

    def _send(self, text: str, fds: tuple[int, ...] = ()) -> None:
        if self.gone or os.getpid() != self._owner:
            raise _launcher_ended()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        try:
            self._socket.sendmsg([text.encode()], rights)
        except BlockingIOError:  # it has not read thousands of messages
            self.kill()
            raise
        except OSError as error:
            raise _launcher_ended() if error.errno == errno.EPIPE else OSError(errno.EAGAIN, error.strerror) from None

    def _receive(self) -> None:
        while not self.gone and os.getpid() == self._owner:
            try:
                # Not recv_fds, which drops the flag: every process that is started would inherit the descriptors.
                data, rights, _, _ = self._socket.recvmsg(MESSAGE, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, rights = b"", []
            if not data:
                self._lost()
                return
            fds = [fd for _, _, part in rights for (fd,) in struct.iter_unpack("i", part)]
            for line in data.decode("utf-8", "replace").split("\n"):
                self._line_received(line, fds)

    def _line_received(self, text: str, fds: list[int]) -> None:
        verb, _, rest = text.partition(" ")
        if verb in {"ready", "unable"}:
            if verb == "unable":
                self._unable = TierUnavailableError(rest, lasting=True)
            elif rest.strip():
                self._log.info("containment", tier=self.tier, note=rest.strip())
            self._decided.set()
            return
        number, *values = rest.split()
        process = self.processes[int(number)]
        if verb == "started":
            process.has_begun(int(values[0]), fds[0] if fds else -1)
        elif verb == "failed":
            process.has_failed(_error(int(values[0]), values[1]))
        elif verb == "ended":
            process.has_ended(int(values[0]))
            if values[1] != "0":
                self._log.error("processes of a hook survived SIGKILL", pid=process.pid, count=int(values[1]))

    def _lost(self) -> None:
        """Handle its end: it ended by itself, or was killed."""
        if not self._decided.is_set():
            self._unable = TierUnavailableError("the launcher ended at its start")
            self._decided.set()
        if self._unable is None:
            self._log.error("the launcher ended: its hooks end too, and are started again by another one", pid=self.pid)
        self._leave()

    def _leave(self) -> None:
        self.gone = True
        self._abandoned.detach()
        self._reactor.release(self._socket.fileno())
        self._socket.close()
        self._reactor.on_readable(self._pidfd, self._reap)
        for process in list(self.processes.values()):
            process.was_orphaned()

    def _reap(self) -> None:
        self._reactor.release(self._pidfd)
        reap(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()


class LaunchedProcess:
    """A process that a launcher has started or is about to start."""

    def __init__(self, launcher: Launcher, reactor: Reactor, number: int, mark: int, group: str) -> None:
        self.pid = 0
        self.tier = launcher.tier
        self.exit_code: int | None = None
        self.begun: Waiter = reactor.waiter()
        """Settled with None when it has started, or with the error if it could not."""
        self.over = anyio.Event()
        self._launcher = launcher
        self._reactor = reactor
        self._number = number
        self._mark = mark
        self._group = group
        self._pidfd = -1
        self._callback: Callable[[], None] | None = None

    def when_ended(self, callback: Callable[[], None]) -> None:
        if self.over.is_set():
            self._reactor.soon(callback)
        else:
            self._callback = callback

    def signal(self, number: int) -> None:
        if not self.over.is_set():
            self._launcher.tell(f"signal {self._number} {number:d}")

    def kill_launcher(self) -> None:
        """Kill the launcher if it does not react. If it reacts, the process is stuck in the kernel."""
        if not self.over.is_set() and self._launcher.is_deaf():
            self._launcher.kill()

    def has_begun(self, pid: int, pidfd: int) -> None:
        """Note that its program runs."""
        self.pid, self._pidfd = pid, pidfd
        self.begun.settle(None)

    def has_failed(self, error: OSError) -> None:
        """Note that it could not be started."""
        self.begun.settle(error)
        self._end()

    def has_ended(self, code: int) -> None:
        """Note that it ended, and that none of its processes is left."""
        self.exit_code = code
        self._end()
        callback, self._callback = self._callback, None  # the callback holds this object
        if callback is not None:
            callback()

    def was_orphaned(self) -> None:
        """Kill the process, because its launcher is gone. In a namespace the kernel kills it."""
        if self._mark:
            from .sweep import kill_marked  # rarely needed

            kill_marked({self._mark})
        if self._pidfd < 0:
            self.has_failed(_launcher_ended())
        else:
            kill_pidfd(self._pidfd)
            self._reactor.on_readable(self._pidfd, self._is_dead)

    def _is_dead(self) -> None:
        self._reactor.release(self._pidfd)
        # Its exit code is known only if the host adopted the orphan and can reap it.
        self.has_ended(reap(self._pidfd, -signal.SIGKILL))
        limits.remove(self._group)

    def _end(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._launcher.processes.pop(self._number, None)
        self.over.set()


def _request(plan: Plan, mark: int, rows: Sequence[limits.Row], group: str) -> dict[str, Any]:
    """The request for a launcher. Raises `ValueError` for an argument or variable that no process can have."""
    argv = [os.fsencode(argument) for argument in plan.argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in plan.env.items()}
    if any(b"\0" in text for text in (*argv, *env, *env.values())):
        raise ValueError("embedded null byte")
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    cwd = plan.cwd
    if cwd is None:
        with suppress(OSError):  # the host's directory may be gone; the launcher is still in it
            cwd = os.getcwd()
    return {
        "argv": argv,
        "env": env,
        "cwd": None if cwd is None else os.fsencode(cwd),
        "mark": mark,
        "limits": list(rows),
        "cgroup": group,
        "by_descriptor": plan.program is not None,
        "own_session": plan.session == "own",
        "own_users": any(row[0] == "processes" for row in rows),
    }


def _error(number: int, step: str) -> OSError:
    """The error for a start that failed with this errno at this step."""
    why = os.strerror(number)
    if step == "dir":
        why = f"its directory: {why}"
    elif step not in {"exec", "spawn"}:
        why = f"its limit on {step}: {why}"
    return OSError(number, why)


def _launcher_ended() -> OSError:
    """The error for a start whose launcher ended. A later start may succeed."""
    return OSError(errno.EAGAIN, "its launcher ended")
