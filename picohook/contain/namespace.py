"""The tier `namespace`: each keeper is the first process of its own PID namespace, which the kernel kills as a whole."""

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import ctypes
import errno
import os
import sys

from .syscalls import CLONE_NEWNS, CLONE_NEWPID, LIBC, enter_user_namespace, libc

PR_SET_PDEATHSIG = 1
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 2 | 4 | 8, 1 << 14 | 1 << 19
CLONE3 = 435  # the same on nearly every architecture
# struct clone_args of Linux 5.3: flags, three numbers, the signal at its end, and three numbers
CLONE_ARGUMENTS = (
    (CLONE_NEWPID | CLONE_NEWNS).to_bytes(8, sys.byteorder)
    + bytes(24)
    + int(_signal.SIGCHLD).to_bytes(8, sys.byteorder)
    + bytes(24)
)
WRONG_PROC = 3
"""The exit code of a first process that sees the /proc of the processes outside. Some containers forbid to mount another."""


def enter_namespaces() -> str:
    """Enter a mount namespace, and test a PID namespace in it. Returns a note for the log. Raises `OSError`."""
    try:
        libc("unshare", CLONE_NEWNS)
    except PermissionError:
        enter_user_namespace(CLONE_NEWNS)
    libc("mount", None, b"/", None, MS_REC_SLAVE, None)
    first = clone()
    if not first:
        try:
            os._exit(0 if os.readlink("/proc/self") == "1" else WRONG_PROC)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    if code not in {0, WRONG_PROC}:
        raise OSError(errno.ECHILD, "the first process of a namespace ended")
    return "hooks see the /proc of the processes outside" if code else ""


def clone() -> int:
    """Fork a child that is the first process of a namespace, and has its /proc. Returns its pid, and 0 in it. Raises `OSError`.

    It ends with this process, even if a hook keeps it from running.
    """
    pid: int = LIBC.syscall(CLONE3, CLONE_ARGUMENTS, ctypes.c_size_t(len(CLONE_ARGUMENTS)))
    if pid < 0:
        number = ctypes.get_errno()
        # ENOSPC: too many namespaces, which may be over soon, like too many processes
        raise OSError(errno.EAGAIN if number == errno.ENOSPC else number, f"clone: {os.strerror(number)}")
    if not pid:
        LIBC.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        LIBC.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)
    return pid
