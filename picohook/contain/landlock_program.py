"""Confines itself with Landlock, then becomes another program. Without a program it only tests whether Landlock works.

::

    python -I -S landlock_program.py [--no-network] [--read PATH]... [--write PATH]... -- PROGRAM ARGUMENT...

`sandbox.py` uses it if bubblewrap is missing. It uses the standard library only. Unlike bubblewrap, Landlock does not prevent
a hook from changing the mode, times or owner of its user's read-only files.
"""

import ctypes
import errno
import os
import struct
import sys
from typing import Any, NoReturn

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
LEAST_ABI = 3
"""The least version of Landlock, that of Linux 6.2. Before it, a read-only file could be truncated."""
ABI_IOCTL, ABI_NETWORK, ABI_SCOPE = 5, 4, 6

# LANDLOCK_ACCESS_FS_*
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
ALL = (1 << 15) - 1
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

LIBC = ctypes.CDLL(None, use_errno=True)


def call(what: str, function: Any, *arguments: Any) -> int:
    """Call a function of the C library. Raises `OSError`."""
    result: int = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def abi() -> int:
    """The version of Landlock in this kernel; 0 without Landlock."""
    try:
        return call("Landlock", LIBC.syscall, CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def leave_the_network() -> None:
    """Enter a network namespace that has only a loopback. Landlock itself covers only TCP. Raises `OSError`."""
    if LIBC.unshare(CLONE_NEWNET):
        user, group = os.geteuid(), os.getegid()
        call("no network namespace", LIBC.unshare, CLONE_NEWUSER | CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    import fcntl
    import socket  # slow to import

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def confine(read: list[str], write: list[str]) -> None:
    """Restrict this process and its descendants to the files below these paths. Raises `OSError`."""
    version = abi()
    if version < LEAST_ABI:
        raise OSError(
            errno.ENOSYS, "this kernel has no Landlock" if not version else "its Landlock is older than Linux 6.2"
        )
    handled = ALL | (IOCTL_DEV if version >= ABI_IOCTL else 0)
    scope = SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= ABI_SCOPE else 0
    size = 24 if version >= ABI_SCOPE else 16 if version >= ABI_NETWORK else 8
    attributes = struct.pack("QQQ", handled, 0, scope)
    ruleset = call("Landlock", LIBC.syscall, CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    rules = [(path, READ) for path in ("/proc", *read)]
    rules += [(path, handled) for path in write] + [(path, READ_FILE | WRITE_FILE) for path in DEVICES]
    for path, access in rules:
        fd = os.open(path, os.O_PATH)
        rights = access if os.path.isdir(path) else access & OF_A_FILE & handled
        call(path, LIBC.syscall, ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    # Otherwise root would regain all capabilities with the exec. Other users have none to drop.
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    call("no_new_privs", LIBC.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("Landlock", LIBC.syscall, RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def main(arguments: list[str]) -> NoReturn:
    """Confine this process, then become the program."""
    paths: dict[str, list[str]] = {"--read": [], "--write": []}
    at = 0
    try:
        while arguments[at] != "--":
            if arguments[at] == "--no-network":
                leave_the_network()
                at += 1
            else:
                paths[arguments[at]].append(arguments[at + 1])
                at += 2
        confine(paths["--read"], paths["--write"])
        program = arguments[at + 1 :]
        if program:
            os.execv(program[0], program)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"the sandbox: {error.strerror or error}\n".encode())
        os._exit(126)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
