"""System calls for the launcher program and the processes that it starts. It imports only fast modules."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import _socket
import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
PR_SET_CHILD_SUBREAPER = 36
TIOCNOTTY = 0x5422  # the same on nearly every architecture
CLOSE_RANGE = 436  # the same on nearly every architecture
HIGHEST_DESCRIPTOR = 0xFFFFFFFF

LIBC = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the interpreter's lock, which the child of a clone needs


class ignoring:  # noqa: N801 - contextlib.suppress, without its import
    """Suppresses exceptions of these kinds."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self.kinds)


def libc(name: str, *arguments: Any) -> None:
    """Call a function of the C library. Raises `OSError`."""
    if getattr(LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter_user_namespace(more: int = 0) -> None:
    """Enter a user namespace with the same user and group. Except for root, its capabilities end with the next exec."""
    user, group = os.geteuid(), os.getegid()
    libc("unshare", CLONE_NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def close_from(least: int) -> None:
    """Close all descriptors from `least` on."""
    if LIBC.syscall(CLOSE_RANGE, least, HIGHEST_DESCRIPTOR, 0):
        for fd in map(int, os.listdir("/proc/self/fd")):  # before Linux 5.9
            if fd >= least:
                with ignoring(OSError):  # the listing's own descriptor
                    os.close(fd)


def adopt_orphans() -> None:
    """Be the parent of descendants whose parents have ended. Raises `OSError`."""
    libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def woken_by_children() -> _socket.socket:
    """A socket that becomes readable when a child of this process ends. A hook cannot open it by its name in /proc."""
    woken, waker = _socket.socketpair()
    waker.setblocking(False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
    return woken


def leave_terminal() -> bool:
    """Give up the controlling terminal, which the children of this process do not have then. Returns whether it has none."""
    with ignoring(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR)
        try:
            libc("ioctl", terminal, TIOCNOTTY)
        finally:
            os.close(terminal)
    with open("/proc/self/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[4] == b"0"
