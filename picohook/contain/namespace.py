"""The tier `namespace`: starts each hook in its own PID namespace, which the kernel kills as a whole."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import ctypes
import errno
import os
import sys

from .syscalls import CLONE_NEWNS, CLONE_NEWPID, LIBC, close_from, enter_user_namespace, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

HANDLED = _signal.SIGCHLD, _signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM
"""The signals that the launcher handles."""
PR_SET_PDEATHSIG = 1
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 2 | 4 | 8, 1 << 14 | 1 << 19
CLONE3 = 435  # the same on nearly every architecture


def prepare_namespaces() -> str:
    """Enter a mount namespace, and test a PID namespace in it. Returns a note for the log. Raises `OSError`."""
    try:
        libc("unshare", CLONE_NEWNS)
    except PermissionError:
        enter_user_namespace(CLONE_NEWNS)
    libc("mount", None, b"/", None, MS_REC_SLAVE, None)
    first, told = new_namespace(None)
    note = os.read(told, 4096).decode()
    os.close(told)
    os.waitpid(first, 0)
    if not note:
        raise OSError(errno.ECHILD, "the first process of a namespace ended")
    return note


def new_namespace(start: Callable[[], int] | None, proc: int = -1) -> tuple[int, int]:
    """Start a hook in a new PID namespace; see `be_first`. `proc` is an open /proc of this process's own namespace.

    Returns the pid of the namespace's first process, and a pipe to read its report from. Raises `OSError`.
    """
    told, teller = os.pipe()
    try:
        # struct clone_args of Linux 5.3: flags, three unused results, the signal at its end, and no stack
        numbers = CLONE_NEWPID | CLONE_NEWNS, 0, 0, 0, _signal.SIGCHLD, 0, 0, 0
        arguments = b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)
        first: int = LIBC.syscall(CLONE3, arguments, ctypes.c_size_t(len(arguments)))
        if first < 0:
            number = ctypes.get_errno()
            # ENOSPC: too many namespaces, which may be over soon, like too many processes
            number = errno.EAGAIN if number == errno.ENOSPC else number
            raise OSError(number, f"clone3: {os.strerror(number)}")  # noqa: TRY301
        if not first:
            os.close(told)  # so that a write fails when the reader is gone
            be_first(teller, start, proc)
    except OSError:
        os.close(told)
        raise
    finally:
        os.close(teller)
    return first, told


def be_first(teller: int, start: Callable[[], int] | None, proc: int) -> NoReturn:
    """Be PID 1 of a namespace: start the hook, write the pid that it has outside, and at its end its exit code. Then wait.

    It waits to be killed. Until then the hook is not reaped, so no signal can reach another process with its pid. Without
    `start` it only writes a note.
    """
    try:
        _signal.set_wakeup_fd(-1)
        for number in HANDLED:  # PID 1 gets from inside only the signals that it handles
            _signal.signal(number, _signal.SIG_DFL)
        # Not earlier, because a change of credentials clears it. If the launcher has ended before, the write below fails.
        libc("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        note = " "
        try:
            libc("mount", b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)
        except OSError as error:  # some containers forbid it; then only /proc/PID is wrong
            note = f"hooks see the /proc of the processes outside ({error.strerror})"
        if start is None:
            os.write(teller, note.encode())
            os._exit(0)
        hook = start()
        os.write(teller, outer_pid(hook, proc) + b" ")
        os.chdir("/")  # the hook's directory is not kept in use
        # Only now, because the launcher expects the pid before it sees the end of the hook's report. The launcher's socket
        # closes here too: it would stay open without the launcher.
        close_from(0, but=teller)
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)).si_pid != hook:  # type: ignore[union-attr]
            os.waitpid(ended.si_pid, 0)  # type: ignore[union-attr] # an orphan
        os.write(teller, b"%d " % (ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))  # type: ignore[union-attr]
        while True:
            _signal.pause()
    finally:
        os._exit(1)


def outer_pid(pid: int, proc: int) -> bytes:
    """The pid of a child in the namespace to which this /proc belongs."""
    pidfd = os.pidfd_open(pid)
    info = os.open(f"self/fdinfo/{pidfd}", os.O_RDONLY, dir_fd=proc)
    lines = os.read(info, 4096).split(b"\n")
    return next(line for line in lines if line.startswith(b"Pid:"))[4:].strip()
