"""The tier `namespace`: starts each hook in its own PID namespace, which the kernel kills as a whole.

A namespace ends with its first process. That process only waits to be killed. The hook is a child of the launcher, whose second
thread enters the namespace to start it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import _thread
import ctypes
import errno
import os
import select
import sys

from .syscalls import CLONE_FS, CLONE_NEWNS, CLONE_NEWPID, LIBC, close_from, enter_user_namespace, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")

HANDLED = _signal.SIGCHLD, _signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM
"""The signals that the launcher handles."""
PR_SET_PDEATHSIG = 1
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 2 | 4 | 8, 1 << 14 | 1 << 19
CLONE3 = 435  # the same on nearly every architecture
# struct clone_args of Linux 5.3: flags, three unused results, the signal at its end, and no stack
CLONE_ARGUMENTS = b"".join(
    number.to_bytes(8, sys.byteorder) for number in (CLONE_NEWPID | CLONE_NEWNS, 0, 0, 0, _signal.SIGCHLD, 0, 0, 0)
)
USED_BY_FIRST = "signal", "dup2", "prctl", "poll", "mount", "chdir", "write", "pause"
NEVER = 1e6
"""Seconds after which a thread that waits for the interpreter asks for it."""
RECORD = 4
"""The size of what a namespace reports: its number; for the first one, which is a test, the errno of its mount or 0."""
TEST = bytes(RECORD)


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
        # No thread asks the running one for the interpreter. The first process of a namespace is a copy of this process without
        # the other thread. It would wait for ever for that thread to take the interpreter.
        sys.setswitchinterval(NEVER)
        self._begin, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._begin.acquire()
        self._done.acquire()
        self._work: Callable[[], Any]
        self._result: Any = None
        _thread.start_new_thread(self._visit, ())
        self._launcher = os.pidfd_open(os.getpid())
        # struct pollfd: whether the descriptor 1 is readable
        self._has_ended = ctypes.create_string_buffer((1 | select.POLLIN << 32).to_bytes(8, sys.byteorder), 8)
        for name in USED_BY_FIRST:
            getattr(LIBC, name)  # which finds it, once for all
        self.ready, self._teller = os.pipe()
        """A pipe, readable when namespaces have become ready; see `are_ready`."""
        first = self.make(0)
        os.close(self._teller)  # so that the read below ends if the first process does
        told = os.read(self.ready, RECORD)
        if not told:
            raise OSError(errno.ECHILD, "the first process of a namespace ended")
        self.inside(first, lambda: None)
        os.kill(first, _signal.SIGKILL)
        os.waitpid(first, 0)
        why = int.from_bytes(told, sys.byteorder)
        self.note = f"hooks see the /proc of the processes outside ({os.strerror(why)})" if why else ""
        """For the log. Some containers forbid to mount a /proc. Then only /proc/PID is wrong."""
        os.close(self.ready)
        self.ready, self._teller = os.pipe()

    def make(self, number: int) -> int:
        """Make a namespace with this number. Returns the pid of its first process. Raises `OSError`."""
        report = number.to_bytes(RECORD, sys.byteorder)
        first: int = LIBC.syscall(CLONE3, CLONE_ARGUMENTS, ctypes.c_size_t(len(CLONE_ARGUMENTS)))
        if not first:
            self._be_first(report)
        if first < 0:
            why = ctypes.get_errno()
            # ENOSPC: too many namespaces, which may be over soon, like too many processes
            why = errno.EAGAIN if why == errno.ENOSPC else why
            raise OSError(why, f"clone3: {os.strerror(why)}")
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

    def _be_first(self, report: bytes) -> NoReturn:
        """Be PID 1 of a namespace: mount its /proc, and write the report. Then wait to be killed. It ends with the launcher.

        Orphans become its children, and the kernel reaps them. It does little, in few ways: each page of the launcher's memory
        that it uses costs a fault, so it calls C, with what was made before the fork. It never releases the interpreter: what
        it would need to take it again may be in use by the thread that it does not have.
        """
        try:
            for handled in HANDLED:  # PID 1 gets from inside only the signals that it handles
                LIBC.signal(handled, _signal.SIG_DFL)
            LIBC.signal(_signal.SIGCHLD, _signal.SIG_IGN)
            LIBC.dup2(self._teller, 0)
            LIBC.dup2(self._launcher, 1)
            close_from(2)  # the pipes of hooks, and the launcher's socket
            # Not earlier, because a change of credentials clears it.
            LIBC.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            if LIBC.poll(self._has_ended, 1, 0):  # it has ended before that could be noticed
                os._exit(1)
            if LIBC.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None) and report == TEST:
                report = ctypes.get_errno().to_bytes(RECORD, sys.byteorder)
            LIBC.chdir(b"/")
            LIBC.write(0, report, RECORD)
            close_from(0)
            while True:
                LIBC.pause()
        finally:
            os._exit(1)


def close(descriptors: list[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
