"""The tier `namespace`: starts each hook in its own PID namespace, which the kernel kills as a whole.

A namespace ends with its first process. That process only waits to be killed, and for the launcher's end. The hook is a child
of the launcher, whose second thread enters the namespace to start it.

A hook may be able to read the memory of its first process, and the launcher's memory has the environments of other hooks. So a
first process is a copy of the maker: a copy of the launcher from before the first request, which gets only numbers. The maker
has one thread, so that its copies never wait for a thread that a copy does not have.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import _socket
import _thread
import ctypes
import errno
import os
import select
import sys

from .syscalls import (
    CLONE_FS,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_PARENT,
    LIBC,
    close_from,
    enter_user_namespace,
    ignoring,
    libc,
)

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
# struct clone_args of Linux 5.3: flags, and seven numbers that a copy with its maker's parent needs none of
CLONE_ARGUMENTS = (CLONE_NEWPID | CLONE_NEWNS | CLONE_PARENT).to_bytes(8, sys.byteorder) + bytes(56)
RECORD = 4
"""The size of a message: a namespace's number, or the maker's answer, which is a pid or a negative errno."""
LOCK_EX, LOCK_UN = 2, 8


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
        self.note = ""
        """For the log. Some containers forbid to mount a /proc. Then only /proc/PID is wrong."""
        self.ready, self._teller = os.pipe()
        """A pipe, readable when namespaces have become ready; see `are_ready`."""
        # First processes wait for a lock that the launcher holds. They do not read a pipe: a hook that may open the descriptors
        # of its PID 1 could write to it, and so end all of them.
        self._lock = os.memfd_create("picohook launcher")
        libc("flock", self._lock, LOCK_EX)
        self._alive = os.open(f"self/fd/{self._lock}", os.O_RDONLY, dir_fd=proc)
        self._maker, self._orders = self._start_maker()
        self._begin, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._begin.acquire()
        self._done.acquire()
        self._work: Callable[[], Any]
        self._result: Any = None
        _thread.start_new_thread(self._visit, ())
        self._test()

    def _start_maker(self) -> tuple[int, _socket.socket]:
        """Start the maker. Returns its pid, and the socket that it gets numbers by and answers."""
        orders, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        # Neither it nor its copies get the signals that the launcher handles: they could not handle them.
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED)
        try:
            maker = os.fork()
            if not maker:
                self._be_maker(theirs.fileno())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        theirs.close()
        return maker, orders

    def _be_maker(self, orders: int) -> NoReturn:
        """Make the first process of a namespace for each number that is read, until the launcher has ended."""
        try:
            for number, fd in enumerate((self._alive, self._teller, orders)):
                os.dup2(fd, number)
            LIBC.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # as in its copies, whose children are orphans
            close_from(3)  # the launcher's socket, and the lock, which would be held as long as this process is there
            while number_of_namespace := os.read(2, RECORD):
                first = LIBC.syscall(CLONE3, CLONE_ARGUMENTS, ctypes.c_size_t(len(CLONE_ARGUMENTS)))
                if not first:
                    self._be_first(number_of_namespace)
                answer = first if first > 0 else -ctypes.get_errno()
                os.write(2, answer.to_bytes(RECORD, sys.byteorder, signed=True))
        finally:
            os._exit(1)

    def _be_first(self, number: bytes) -> NoReturn:
        """Be the first process of the namespace with this number. It is PID 1 there, and a child of the launcher.

        It mounts its /proc, and tells that the namespace is ready. It ends with the launcher. Orphans become its children, and
        the kernel reaps them, because it ignores SIGCHLD.
        """
        try:
            os.close(2)
            LIBC.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            LIBC.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)
            os.write(1, number)
            os.close(1)
            LIBC.flock(0, LOCK_EX)  # until the launcher has ended, even if that was before the call of prctl
            os._exit(0)
        finally:
            os._exit(1)

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
        try:
            self._orders.send(number.to_bytes(RECORD, sys.byteorder))
            answer = self._orders.recv(RECORD)
        except ConnectionError:
            answer = b""
        if not answer:
            raise EOFError(
                "the maker of namespaces has ended"
            )  # and the launcher does, as if it had been killed itself
        first = int.from_bytes(answer, sys.byteorder, signed=True)
        if first < 0:
            # ENOSPC: too many namespaces, which may be over soon, like too many processes
            why = errno.EAGAIN if -first == errno.ENOSPC else -first
            raise OSError(why, f"clone: {os.strerror(why)}")
        return first

    def end(self) -> None:
        """End the maker, and reap it."""
        with ignoring(OSError):  # it has ended already
            self._orders.shutdown(_socket.SHUT_RDWR)  # not close: a copy of this process may still have the socket
            os.waitpid(self._maker, 0)

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
        """The thread that works inside namespaces."""
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


def close(descriptors: list[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
