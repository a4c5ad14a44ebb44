"""The tier `sweep`: finds the processes of a hook by their mark, a random number in RLIMIT_LOCKS, and kills them.

Linux has not enforced that limit since 2.4. Unlike an environment variable, it stays when a daemon changes its session,
environment or title. A process can change its mark.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import os
import resource
import select

from .syscalls import RLIMIT_LOCKS, ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def marked_processes(mark: int, proc: int | str = "/proc") -> Iterator[tuple[int, int]]:
    """The living processes with this mark. Yields a pid, and a pidfd that is valid until the next iteration."""
    for pid in (int(name) for name in os.listdir(proc) if name.isdigit()):
        with ignoring(OSError):  # it has ended, or belongs to another user
            if mark not in resource.prlimit(pid, RLIMIT_LOCKS):
                continue
            pidfd = os.pidfd_open(pid)
            try:
                # Check again with the pidfd open, in case the number belongs to another process by now.
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)  # readable if it is a zombie
                if mark in resource.prlimit(pid, RLIMIT_LOCKS) and not poll.poll(0):
                    yield pid, pidfd
            finally:
                os.close(pidfd)


def kill_marked(mark: int, proc: int | str = "/proc") -> int:
    """Kill the processes with this mark. Returns how many were found. The host too calls this, if its launcher was killed.

    All are stopped before the first is killed. A stopped process does not fork, but still counts towards a limit on processes,
    so this also ends a fork bomb.
    """
    seen: set[int] = set()
    before = -1
    while before < len(seen):
        before = len(seen)
        for pid, pidfd in marked_processes(mark, proc):
            if pid not in seen:
                seen.add(pid)
                with ignoring(OSError):
                    _signal.pidfd_send_signal(pidfd, _signal.SIGSTOP)
    if seen:
        for _, pidfd in marked_processes(mark, proc):
            with ignoring(OSError):
                _signal.pidfd_send_signal(pidfd, _signal.SIGKILL)
    return len(seen)
