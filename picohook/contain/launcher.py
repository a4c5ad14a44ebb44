"""The host's side of a launcher (`launcher_program.py`), and of the processes that it starts."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import secrets
import select
import signal
import socket
import struct
import sys
import termios
import weakref
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio

from ..process.spawn import KILL_WAIT
from . import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..observe.log import Log
    from ..process.plan import Plan
    from ..process.spawn import Process, Streams
    from ..transport.reactor import Reactor, Waiter

PLACE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = "import sys; sys.path.append(sys.argv[3]); import launcher_program; launcher_program.main()"
"""An import takes the compiled file, where a script is compiled each time. What the standard library has comes first."""
READY_WAIT = 10.0
"""Seconds that a launcher may take to be there; it is there in a few hundredths of one."""
CLOSE_WAIT = 5.0
"""Seconds that it may take to kill what is left, and end."""
STARTS_AT_ONCE = 8
"""More would only wait in the socket, and descriptors in a socket count against a limit of the user's."""
MESSAGE = 4096
CONTROL = 3
RLIMIT_LOCKS = 10
MARK_LEAST, MARK_MOST = 1 << 32, 1 << 62


class UnableError(Exception):
    """A launcher cannot be, or cannot have its tier."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting
        """It is the machine, and so it is the same the next time."""


class Launcher:
    """A launcher, from the host's side."""

    def __init__(self, reactor: Reactor, log: Log, tier: str) -> None:
        self.gone = False
        self.tier = tier
        self._owner = os.getpid()
        self._reactor = reactor
        self._log = log
        self._ids = count(1)
        self._processes: dict[int, Launched] = {}
        self._starts = anyio.Semaphore(STARTS_AT_ONCE)
        self._patience = reactor.now() + READY_WAIT
        self._decided = anyio.Event()
        self._unable, self._lasting = "", False
        self._ended = anyio.Event()
        _check_able(tier)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.pid, self._pidfd = _start(theirs, tier)
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        myself = weakref.ref(self)

        def readable() -> None:
            launcher = myself()
            if launcher is not None:
                launcher._receive()  # noqa: SLF001 - itself

        # Only the event loop holds this function: if it is gone before the launcher is, the loop was closed over it.
        self._abandoned = weakref.finalize(readable, _end_abandoned, self._socket, self._pidfd, os.getpid())
        reactor.on_readable(self._socket.fileno(), readable)

    async def ready(self, deadline: float) -> None:
        """Wait until it is, or raise `UnableError`."""
        with anyio.move_on_after(max(0.0, min(self._patience, deadline) - self._reactor.now())):
            await self._decided.wait()
        if not self._decided.is_set():
            if self._reactor.now() < self._patience:
                raise TimeoutError
            self.kill()
            raise UnableError("the launcher was not there in time")
        if self._unable:
            raise UnableError(self._unable, lasting=self._lasting)

    async def launch(
        self, plan: Plan, streams: Streams, deadline: float, rows: list[limits.Row] | None = None, group: str = ""
    ) -> Launched:
        """As `Spawner.spawn`, with limits: resource limits, and a control group."""
        mark = 0 if self.tier == "namespace" else _new_mark()
        order = _order(plan, mark, rows or [], group)
        async with self._starts:
            if self.gone:
                raise _launcher_ended()
            number = next(self._ids)
            process = self._processes[number] = Launched(self, self._reactor, number, mark, group)
            try:
                self._place(number, order, streams if plan.program is None else (*streams, plan.program.descriptor))
            except OSError:
                del self._processes[number]
                raise
            try:
                failure = await process.begun.wait(deadline)
            except BaseException:
                process.signal(signal.SIGKILL)
                with anyio.move_on_after(KILL_WAIT, shield=True):
                    await process.over.wait()
                raise
        if failure is not None:
            raise failure
        return process

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> Process:
        """Start a process without limits."""
        return await self.launch(plan, streams, deadline)

    async def aclose(self) -> None:
        """End it, and with it all that is left of its hooks."""
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
        """Send a message, as far as there is still somebody to read it."""
        with suppress(OSError):
            self._send(text)

    def is_deaf(self) -> bool:
        """Whether it leaves messages unread."""
        if self.gone or os.getpid() != self._owner:
            return False
        unread = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return unread != bytes(4)

    def kill(self) -> None:
        """End it the hard way. What becomes of its hooks is the same as if it was closed, or killed by somebody else."""
        if os.getpid() != self._owner:
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def forget(self, number: int) -> None:
        """A process is over."""
        self._processes.pop(number, None)

    def _place(self, number: int, order: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        with open(os.memfd_create("picohook order"), "w+b") as file:
            marshal.dump(order, file)
            file.flush()
            file.seek(0)
            self._send(f"spawn {number}", (file.fileno(), *descriptors))

    def _send(self, text: str, fds: tuple[int, ...] = ()) -> None:
        if self.gone or os.getpid() != self._owner:
            raise _launcher_ended()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        try:
            self._socket.sendmsg([text.encode()], rights)
        except BlockingIOError:  # thousands of messages: it does not read
            self.kill()
            raise
        except OSError as error:
            raise _launcher_ended() if error.errno == errno.EPIPE else OSError(errno.EAGAIN, error.strerror) from None

    def _receive(self) -> None:
        while not self.gone and os.getpid() == self._owner:
            try:
                # Not recv_fds: it forgets the flag, and a descriptor without it goes to every process that is started.
                data, rights, _, _ = self._socket.recvmsg(MESSAGE, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, rights = b"", []
            if not data:
                self._lost()
                return
            self._told(
                data.decode("utf-8", "replace"),
                [fd for _, _, part in rights for (fd,) in struct.iter_unpack("i", part)],
            )

    def _told(self, text: str, fds: list[int]) -> None:
        verb, _, rest = text.partition(" ")
        if verb in {"ready", "unable"}:
            if verb == "unable":
                self._unable, self._lasting = rest, True
            elif rest.strip():
                self._log.info("containment", tier=self.tier, note=rest.strip())
            self._decided.set()
            return
        number, *values = rest.split()
        process = self._processes[int(number)]
        if verb == "started":
            process.has_begun(int(values[0]), fds[0] if fds else -1)
        elif verb == "failed":
            process.has_failed(_failure(int(values[0]), values[1]))
        elif verb == "ended":
            process.has_ended(int(values[0]))
            if values[1] != "0":
                self._log.error("processes of a hook survived SIGKILL", pid=process.pid, count=int(values[1]))

    def _lost(self) -> None:
        """It has ended, and nobody here told it to."""
        if not self._decided.is_set():
            self._unable = "the launcher ended at its start"
            self._decided.set()
        if not self._unable:
            self._log.error("the launcher ended: its hooks end too, and are started again by another one", pid=self.pid)
        self._leave()

    def _leave(self) -> None:
        self.gone = True
        self._abandoned.detach()
        self._reactor.release(self._socket.fileno())
        self._socket.close()
        self._reactor.on_readable(self._pidfd, self._reap)
        for process in list(self._processes.values()):
            process.was_orphaned()

    def _reap(self) -> None:
        self._reactor.release(self._pidfd)
        _wait_for(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()


class Launched:
    """A process that a launcher has started, or is about to."""

    def __init__(self, launcher: Launcher, reactor: Reactor, number: int, mark: int, group: str) -> None:
        self.pid = 0
        self.tier = launcher.tier
        self.exit_code: int | None = None
        self.begun: Waiter = reactor.waiter()
        """Settled with None, or with the error that kept it from it."""
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

    def insist(self) -> None:
        """Either it is stuck in the kernel, or the launcher is held up, and does nothing."""
        if not self.over.is_set() and self._launcher.is_deaf():
            self._launcher.kill()

    def has_begun(self, pid: int, pidfd: int) -> None:
        """It runs its program."""
        self.pid, self._pidfd = pid, pidfd
        self.begun.settle(None)

    def has_failed(self, error: OSError) -> None:
        """It never did."""
        self.begun.settle(error)
        self._end()

    def has_ended(self, code: int) -> None:
        """It did, and nothing of it is left."""
        self.exit_code = code
        self._end()
        callback, self._callback = self._callback, None  # which holds this
        if callback is not None:
            callback()

    def was_orphaned(self) -> None:
        """Its launcher is gone. In a namespace the kernel is killing it by now; elsewhere this does."""
        if self._mark:
            from .launcher_program import slay  # noqa: PLC0415 - rarely needed

            slay(self._mark)
        if self._pidfd < 0:
            self.has_failed(_launcher_ended())
        else:
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self._reactor.on_readable(self._pidfd, self._is_dead)

    def _is_dead(self) -> None:
        self._reactor.release(self._pidfd)
        # Only if orphans fall to the host is it to be reaped here, and its exit code known.
        self.has_ended(_wait_for(self._pidfd, -signal.SIGKILL))
        limits.remove(self._group)

    def _end(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._launcher.forget(self._number)
        self.over.set()


def _check_able(tier: str) -> None:
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise UnableError("only Linux has it")
    if not sys.executable or getattr(sys, "frozen", False) or "py" not in os.path.basename(sys.executable).lower():
        raise UnableError("the launcher needs a Python to run it, and this program is none")
    if tier == "sweep":
        _new_mark()


def _start(theirs: socket.socket, tier: str) -> tuple[int, int]:
    """Start a launcher. Gives its pid and a pidfd."""
    # Above what the actions below replace.
    end = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, CONTROL + 1)
    try:
        # Not Popen: it warns of a process that is still running when it is forgotten, and this one then ends by itself.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", PROGRAM, str(os.getpid()), tier, PLACE],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, end, CONTROL),
            ],
            setsid=True,
            setsigmask=(),  # what the host's thread blocks, its hooks need not
        )
    finally:
        os.close(end)
    try:
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


def _order(plan: Plan, mark: int, rows: list[limits.Row], group: str) -> dict[str, Any]:
    """What the launcher needs to know. Raises `ValueError` for what no process can be given."""
    argv = [os.fsencode(argument) for argument in plan.argv]
    env = {os.fsencode(name): os.fsencode(value) for name, value in plan.env.items()}
    if any(b"\0" in text for text in (*argv, *env, *env.values())):
        raise ValueError("embedded null byte")
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    cwd = plan.cwd
    if cwd is None:
        with suppress(OSError):  # it is gone: the launcher, which was started in it, is in it still
            cwd = os.getcwd()
    return {
        "argv": argv,
        "env": env,
        "cwd": None if cwd is None else os.fsencode(cwd),
        "mark": mark,
        "limits": rows,
        "cgroup": group,
        "itself": plan.program is not None,
        "own_users": any(row[0] == "processes" for row in rows),
    }


def _new_mark() -> int:
    """A number that no other hook has; see `launcher_program.py`."""
    _, hard = resource.getrlimit(RLIMIT_LOCKS)
    most = MARK_MOST if hard == resource.RLIM_INFINITY else hard  # if this host is itself a hook, that one's mark
    if most <= 2 * MARK_LEAST:
        raise UnableError("the limit on file locks (ulimit -x) is in use, so that it cannot mark hooks")
    return MARK_LEAST + secrets.randbelow(most - MARK_LEAST)


def _failure(number: int, step: str) -> OSError:
    why = os.strerror(number)
    if step == "dir":
        why = f"its directory: {why}"
    elif step not in {"exec", "spawn"}:
        why = f"its limit on {step}: {why}"
    return OSError(number, why)


def _launcher_ended() -> OSError:
    return OSError(errno.EAGAIN, "its launcher ended")


def _wait_for(pidfd: int, otherwise: int = 0) -> int:
    """Reap a process that has ended, if that is for this process to do. Gives its exit code."""
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return otherwise
    if ended is None:
        return otherwise
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _end_abandoned(control: socket.socket, pidfd: int, owner: int) -> None:
    """The event loop was closed over it, or the interpreter ends."""
    if os.getpid() != owner:
        return
    control.close()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(CLOSE_WAIT * 1000):
        with suppress(OSError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll.poll(KILL_WAIT * 1000)
    _wait_for(pidfd)
    os.close(pidfd)
