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


def marked_processes(marks: set[int], proc: int | str = "/proc") -> Iterator[tuple[int, int, int]]:
    """The living processes with one of these marks.

    Yields the pid, a pidfd that is valid until the next iteration, and the mark. A process may have two marks.
    """
    for pid in (int(name) for name in os.listdir(proc) if name.isdigit()):
        with ignoring(OSError):  # it has ended, or belongs to another user
            if marks.isdisjoint(resource.prlimit(pid, RLIMIT_LOCKS)):
                continue
            pidfd = os.pidfd_open(pid)
            try:
                # Check again with the pidfd open, in case the number belongs to another process by now.
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)  # readable if it is a zombie
                found = marks.intersection(resource.prlimit(pid, RLIMIT_LOCKS))
                if found and not poll.poll(0):
                    for mark in found:
                        yield pid, pidfd, mark
            finally:
                os.close(pidfd)


def kill_marked(marks: set[int], proc: int | str = "/proc") -> dict[int, int]:
    """Kill the processes with one of these marks. Returns how many were found for each mark of which any were found.

    The host too calls this, if its launcher was killed. All are stopped before the first is killed. A stopped process does not
    fork, but still counts towards a limit on processes, so this also ends a fork bomb.
    """
    if not marks:
        return {}
    seen: set[tuple[int, int]] = set()
    before = -1
    while before < len(seen):
        before = len(seen)
        for pid, pidfd, mark in marked_processes(marks, proc):
            if (pid, mark) not in seen:
                seen.add((pid, mark))
                with ignoring(OSError):
                    _signal.pidfd_send_signal(pidfd, _signal.SIGSTOP)
    if seen:
        for _, pidfd, _ in marked_processes(marks, proc):
            with ignoring(OSError):
                _signal.pidfd_send_signal(pidfd, _signal.SIGKILL)
    found: dict[int, int] = {}
    for _, mark in seen:
        found[mark] = found.get(mark, 0) + 1
    return found
