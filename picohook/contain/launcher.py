"""The host's side of a launcher (`launcher_program.py`), and of the processes that its keepers (`keeper.py`) start."""

import errno
import fcntl
import marshal
import os
import select
import signal
import socket
import struct
import termios
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import anyio

from ..observe.log import Log
from ..process.kill import KILL_WAIT, kill_pidfd, stop_in_steps
from ..process.plan import Plan
from ..process.spawn import Streams
from ..transport.reactor import Reactor, Waiter
from . import limits
from .launcher_start import (
    CLOSE_WAIT,
    TierUnavailableError,
    check_available,
    reap,
    start_launcher,
)

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
        self.log = log
        self._owner = os.getpid()
        self._reactor = reactor
        self._ids = count(1)
        self.processes: dict[int, LaunchedProcess] = {}
        self.groups: set[str] = set()
        """Control groups that could not be removed with their hook, because the launcher was killed."""
        self._starts = anyio.Semaphore(STARTS_AT_ONCE, fast_acquire=True)
        self._ready_by = reactor.now() + READY_WAIT
        self._decided = anyio.Event()
        self._unable: TierUnavailableError | None = None
        self._ended = anyio.Event()
        check_available()
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
        self._abandoned = weakref.finalize(
            readable, _end_abandoned, self._socket, self._pidfd, os.getpid(), self.processes
        )
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
    ) -> "LaunchedProcess":
        """Start a process as `Spawner.spawn` does, with resource limits and a control group."""
        request = _request(plan, rows, group)
        descriptors = streams if plan.program is None else (*streams, plan.program.descriptor)
        async with self._starts:
            process = LaunchedProcess(self, self._reactor, next(self._ids), group)
            process.request_start(request, descriptors)
            try:
                failure = await process.begun.wait(deadline)
                if failure is not None:
                    raise failure
            except BaseException:
                await stop_in_steps(process, process.over, [])
                raise
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
        for process in list(self.processes.values()):
            process.is_over()
        for group in self.groups:
            limits.remove(group)

    def send(self, text: str, fd: int | None = None) -> None:
        """Send it a message, and maybe a descriptor. Raises `OSError`."""
        if not self.is_ours():
            raise _launcher_ended()
        try:
            _send(self._socket, text, () if fd is None else (fd,))
        except BlockingIOError:  # it has not read thousands of messages
            self.kill()
            raise
        except OSError as error:
            raise _launcher_ended() if error.errno == errno.EPIPE else OSError(errno.EAGAIN, error.strerror) from None

    def is_ours(self) -> bool:
        """Whether it serves this process, which may be a fork of its host."""
        return not self.gone and os.getpid() == self._owner

    def is_deaf(self) -> bool:
        """Whether it has unread messages."""
        if not self.is_ours():
            return False
        unread = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return unread != bytes(4)

    def kill(self) -> None:
        """Kill it. Its hooks end, as when it is closed."""
        if os.getpid() == self._owner:
            kill_pidfd(self._pidfd)

    def _receive(self) -> None:
        while self.is_ours():
            try:
                data = self._socket.recv(MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            verb, _, rest = data.decode("utf-8", "replace").partition(" ")
            if verb == "over":
                number, failure = map(int, rest.split())
                self.processes[number].is_over(failure)
            elif verb:
                if verb == "unable":
                    self._unable = TierUnavailableError(rest, lasting=True)
                elif rest:
                    self.log.info("containment", tier=self.tier, note=rest)
                self._decided.set()
            else:
                self._lost()

    def _lost(self) -> None:
        """Handle its end: it ended by itself, or was killed."""
        if not self._decided.is_set():
            self._unable = TierUnavailableError("the launcher ended at its start")
            self._decided.set()
        if self._unable is None:
            self.log.error("the launcher ended: its hooks end too, and are started again by another one", pid=self.pid)
        self._leave()

    def _leave(self) -> None:
        self.gone = True
        self._abandoned.detach()
        self._reactor.release(self._socket.fileno())
        self._socket.close()
        self._reactor.on_readable(self._pidfd, self._reap)
        for process in list(self.processes.values()):
            process.is_orphaned()

    def _reap(self) -> None:
        self._reactor.release(self._pidfd)
        reap(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()


class LaunchedProcess:
    """A process that a keeper has started or is about to start."""

    def __init__(self, launcher: Launcher, reactor: Reactor, number: int, group: str) -> None:
        self.pid = 0
        self.tier = launcher.tier
        self.exit_code: int | None = None
        self.begun: Waiter = reactor.waiter()
        """Settled with None when it has started, or with the error if it could not."""
        self.over = anyio.Event()
        """Set when none of its processes is left."""
        self._launcher = launcher
        self._reactor = reactor
        self._number = number
        self._group = group
        self.socket: socket.socket | None = None
        self._keeper_ended = False
        self._failure: OSError | None = None
        self._callback: Callable[[], None] | None = None

    def request_start(self, request: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        """Ask the launcher for a keeper, and the keeper for a start with these descriptors. Raises `OSError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                file = os.memfd_create("picohook request")
                try:
                    os.write(file, marshal.dumps(request))
                    _send(ours, "start", (file, *descriptors))
                finally:
                    os.close(file)
                self._launcher.send(f"spawn {self._number} {self._group}", theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.socket = ours
        self._launcher.processes[self._number] = self
        self._reactor.on_readable(ours.fileno(), self._receive)

    def when_ended(self, callback: Callable[[], None]) -> None:
        if self.over.is_set():
            self._reactor.soon(callback)
        else:
            self._callback = callback

    def signal(self, number: int) -> None:
        if self.socket is not None and self._launcher.is_ours():
            with suppress(OSError):  # the keeper has ended
                _send(self.socket, f"{number:d}")

    def kill_launcher(self) -> None:
        """Kill its keeper; the launcher, if that does not react."""
        if self._launcher.is_deaf():
            self._launcher.kill()
        elif not self.over.is_set():
            with suppress(OSError):
                self._launcher.send(f"kill {self._number} ")

    def is_over(self, failure: int = 0) -> None:
        """Note that none of its processes is left, or with an errno that it has no keeper."""
        while self._receive():
            pass
        if self.socket is None:
            return
        self._reactor.release(self.socket.fileno())
        self.socket.close()
        self.socket = None
        if self.exit_code is None and self.pid:
            self.exit_code = -signal.SIGKILL
        self.begun.settle(_error(failure, "spawn") if failure else self._failure or _launcher_ended())
        del self._launcher.processes[self._number]
        limits.remove(self._group)
        if self._launcher.gone:  # in a namespace, some processes may be ending still
            self._launcher.groups.add(self._group)
        self.over.set()
        callback, self._callback = self._callback, None  # the callback holds this object
        if callback is not None:
            callback()

    def is_orphaned(self) -> None:
        """Note that the launcher is gone. Its keepers end with it."""
        if self._keeper_ended:
            self.is_over()
        elif self.pid and self.socket is not None:
            self._reactor.on_readable(self.socket.fileno(), self._receive)

    def _receive(self) -> bool:
        """Receive one message of the keeper. Returns whether there was one."""
        if self.socket is None or self._keeper_ended:
            return False
        try:
            # Not recv_fds, which drops the flag: every process that is started would inherit the descriptors.
            data, rights, _, _ = self.socket.recvmsg(MESSAGE, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except OSError:
            data, rights = b"", []
        fds = [fd for _, _, part in rights for (fd,) in struct.iter_unpack("i", part)]
        with suppress(ValueError, LookupError, OverflowError, OSError):  # a hook can write what its keeper can
            self._told(data.decode("utf-8", "replace").split(), fds)
        for fd in fds:
            os.close(fd)
        if not data:
            self._keeper_ended = True
            self._reactor.release(self.socket.fileno())
            if self._launcher.gone:
                self.is_over()
        return bool(data)

    def _told(self, words: list[str], fds: list[int]) -> None:
        match words:
            case ["started"]:
                failure: OSError | None = _error(errno.EMFILE, "spawn")
                with suppress(LookupError, OSError, StopIteration):  # no descriptor is free, or a hook wrote this
                    self.pid, failure = _pid_of(fds[0]), None
                    if self.socket is not None and not self._launcher.gone:
                        self._reactor.release(self.socket.fileno())  # the launcher says when it is over
                self.begun.settle(failure)
            case ["failed", number, step]:
                self._failure = _error(int(number), step)
            case ["ended", code, left]:
                self.exit_code = int(code)
                if left != "0":
                    self._launcher.log.error("processes of a hook survived SIGKILL", pid=self.pid, count=int(left))


def _end_abandoned(control: socket.socket, pidfd: int, owner: int, processes: Mapping[int, LaunchedProcess]) -> None:
    """Stop a launcher whose event loop was closed. Only the process `owner` does so, not its forks."""
    if os.getpid() != owner:
        return
    control.close()
    for process in processes.values():
        if process.socket is not None:
            process.socket.close()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(CLOSE_WAIT * 1000):
        kill_pidfd(pidfd)
        poll.poll(KILL_WAIT * 1000)
    reap(pidfd)
    os.close(pidfd)


def _send(through: socket.socket, text: str, fds: tuple[int, ...] = ()) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    through.sendmsg([text.encode()], rights)


def _pid_of(pidfd: int) -> int:
    """The number of a pidfd's process in the namespace of this one."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


def _request(plan: Plan, rows: Sequence[limits.Row], group: str) -> dict[str, Any]:
    """The request for a keeper. Raises `ValueError` for an argument or variable that no process can have."""
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
