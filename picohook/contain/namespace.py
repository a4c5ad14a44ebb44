"""The tier `namespace`: starts each hook in its own PID namespace, which the kernel kills as a whole.

A namespace ends with its first process. That process is a copy of the launcher (`small_copies.py`). It only waits to be killed,
and for the launcher's end. The hook is a child of the launcher, whose second thread enters the namespace to start it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import _thread
import ctypes
import errno
import os
import select
import sys

from .small_copies import SmallCopies, copy_all
from .syscalls import (
    CLONE_FS,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLOSE_RANGE,
    LIBC,
    MOST,
    close_from,
    enter_user_namespace,
    ignoring,
    libc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeVar

    from .small_copies import Call

    T = TypeVar("T")

HANDLED = _signal.SIGCHLD, _signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM
"""The signals that the launcher handles."""
PR_SET_PDEATHSIG = 1
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 2 | 4 | 8, 1 << 14 | 1 << 19
CLONE3 = 435  # the same on nearly every architecture
COPY = CLONE_NEWPID | CLONE_NEWNS, _signal.SIGCHLD
"""For clone(2): what a first process has of its own, and the signal at its end."""
# struct clone_args of Linux 5.3: flags, three unused results, the signal at its end, and no stack
CLONE_ARGUMENTS = b"".join(number.to_bytes(8, sys.byteorder) for number in (COPY[0], 0, 0, 0, COPY[1], 0, 0, 0))
RECORD = 4
"""The size of what a namespace reports: its number."""
PROC = b"/proc\0"
LOCK_EX, LOCK_UN = 2, 8
NEVER = 1e6
"""Seconds after which a thread that waits for the interpreter asks for it."""


class Namespaces:
    """Makes namespaces, and enters them."""

    def __init__(self, proc: int) -> None:
        """Enter a mount namespace, and test a PID namespace in it. Raises `OSError`.

        `proc` is an open /proc of this process's own PID namespace.
        """
        try:
            libc("unshare", CLONE_NEWNS)
        except PermissionError:
            enter_user_namespace(CLONE_NEWNS)
        libc("mount", None, b"/", None, MS_REC_SLAVE, None)
        self._proc = proc
        # No thread asks the running one for the interpreter. A copy of this process does not have the other thread. If it runs
        # Python, it would wait for ever for that thread to take the interpreter.
        sys.setswitchinterval(NEVER)
        self._begin, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._begin.acquire()
        self._done.acquire()
        self._work: Callable[[], Any]
        self._result: Any = None
        _thread.start_new_thread(self._visit, ())
        self.note = ""
        """For the log. Some containers forbid to mount a /proc. Then only /proc/PID is wrong."""
        self.ready, self._teller = os.pipe()
        """A pipe, readable when namespaces have become ready; see `are_ready`."""
        # First processes wait for a lock that the launcher holds. They do not read a pipe: a hook that may open the descriptors
        # of its PID 1 could write to it, and so end all of them.
        self._lock = os.memfd_create("picohook launcher")
        libc("flock", self._lock, LOCK_EX)
        self._alive = os.open(f"self/fd/{self._lock}", os.O_RDONLY, dir_fd=proc)
        self._data = ctypes.create_string_buffer(bytes(RECORD) + PROC)
        self._copies: SmallCopies | None = None
        try:
            libc("syscall", CLOSE_RANGE, MOST, MOST, 0)
            keep = (LIBC.dup2, self._alive, 0), (LIBC.dup2, self._teller, 1), (LIBC.syscall, CLOSE_RANGE, 2, MOST, 0)
            with without_signals():
                self._copies = SmallCopies([*keep, *self._calls_of_first()], self._data)
            self._test()
        except (AttributeError, OSError):  # with the library musl, and before Linux 5.9
            self._copies = None
            copy_all()
            self._test()

    def _calls_of_first(self) -> list[Call]:
        """What the first process of a namespace calls with two descriptors, `_alive` and `_teller`. It is PID 1 there.

        It mounts its /proc, and tells that the namespace is ready. It ends with the launcher. Orphans become its children, and
        the kernel reaps them.
        """
        number = ctypes.addressof(self._data)
        place, kind = number + RECORD, number + RECORD + 1
        return [
            (LIBC.signal, _signal.SIGCHLD, int(_signal.SIG_IGN)),
            (LIBC.prctl, PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0),
            (LIBC.mount, kind, place, kind, MS_NOSUID_NODEV_NOEXEC, 0),
            (LIBC.write, 1, number, RECORD),
            (LIBC.close, 1),
            (LIBC.flock, 0, LOCK_EX),  # until the launcher has ended, even if that was before the call of prctl
            (LIBC._exit, 0),  # noqa: SLF001 - the name of a C function
        ]

    def _test(self) -> None:
        """Make and enter a namespace. Then let its first process end by itself, which shows that it has made all calls."""
        first = self.make(0)
        try:
            ended = os.pidfd_open(first)
            select.select([self.ready, ended], [], [])
            os.close(ended)
            self.inside(first, self._look_at_proc)
        finally:
            libc("flock", self._lock, LOCK_UN)
            status = os.waitpid(first, 0)[1]
            libc("flock", self._alive, LOCK_UN)
            libc("flock", self._lock, LOCK_EX)
        if status:
            raise OSError(errno.ECHILD, "the first process of a namespace ended")
        os.read(self.ready, RECORD)

    def _look_at_proc(self) -> None:
        with ignoring(FileNotFoundError):
            os.readlink("/proc/self")  # it has only the processes of the namespace, and not this one
            self.note = "hooks see the /proc of the processes outside"

    def make(self, number: int) -> int:
        """Make a namespace with this number. Returns the pid of its first process. Raises `OSError`."""
        ctypes.memmove(self._data, number.to_bytes(RECORD, sys.byteorder), RECORD)
        with without_signals():
            if self._copies is not None:
                first = self._copies.make(COPY[0] | COPY[1])
            else:
                first = LIBC.syscall(CLONE3, CLONE_ARGUMENTS, ctypes.c_size_t(len(CLONE_ARGUMENTS)))
                if not first:
                    self._be_first()
        if first < 0:
            why = ctypes.get_errno()
            # ENOSPC: too many namespaces, which may be over soon, like too many processes
            why = errno.EAGAIN if why == errno.ENOSPC else why
            raise OSError(why, f"clone: {os.strerror(why)}")
        return first

    def are_ready(self) -> list[int]:
        """The numbers of the namespaces that have become ready. Call it when `ready` is readable."""
        told = os.read(self.ready, 1024 * RECORD)
        return [int.from_bytes(told[at : at + RECORD], sys.byteorder) for at in range(0, len(told), RECORD)]

    def inside(self, first: int, work: Callable[[], T]) -> T:
        """Do this work inside the namespace of this first process: its children are in it then. Raises `OSError`.

        Another thread does it, while this one waits. It goes from one namespace to the next: without root there is no way back.
        """
        self._work = lambda: self._enter(first, work)
        self._begin.release()
        self._done.acquire()
        result: T | OSError = self._result
        if isinstance(result, OSError):
            raise result
        return result

    def _visit(self) -> None:
        """Do the work that is to be done inside namespaces: the thread."""
        _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED)  # they would wake it, and the other thread handles them
        while True:
            self._begin.acquire()
            try:
                self._result = self._work()
            except OSError as error:
                self._result = error
            finally:
                self._done.release()

    def _enter(self, first: int, work: Callable[[], T]) -> T:
        place: list[int] = []
        try:
            for name in ("ns/mnt", "ns/pid", "root"):
                place.append(os.open(f"{first}/{name}", os.O_RDONLY, dir_fd=self._proc))  # noqa: PERF401 - one may fail
            mounts, pids, root = place
            libc("unshare", CLONE_FS)  # a directory and a root of this thread's own
            libc("setns", mounts, CLONE_NEWNS)
            libc("setns", pids, CLONE_NEWPID)
            os.fchdir(root)
            os.chroot(".")  # the root of the mount namespace may be another one
            return work()
        finally:
            close(place)

    def _be_first(self) -> NoReturn:
        """Be the first process of a namespace, where that runs Python.

        It never releases the interpreter: what it would need to take it again may be in use by the thread that a copy does not
        have.
        """
        try:
            LIBC.dup2(self._alive, 0)
            LIBC.dup2(self._teller, 1)
            close_from(2)  # the pipes of hooks, and the launcher's socket
            for function, *arguments in self._calls_of_first():
                function(*map(ctypes.c_long, arguments))
        finally:
            os._exit(1)


class without_signals:  # noqa: N801 - as a function that is made with contextlib, which is slow to import
    """Blocks the signals that the launcher handles. A copy that is made meanwhile never gets them: it could not handle them."""

    def __enter__(self) -> None:
        self._before = _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED)

    def __exit__(self, *_: object) -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._before)


def close(descriptors: list[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
