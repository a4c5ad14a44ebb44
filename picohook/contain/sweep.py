"""Kills all descendants of a process that adopts orphans (PR_SET_CHILD_SUBREAPER), however they try to get away."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import os
import time

from .syscalls import ignoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

KILL_WAIT, PAUSE = 2.0, 0.001
"""The seconds in which descendants are searched for and killed, and those between two searches."""
MOST_SEARCHES = 20
"""The number of searches in a row that find nothing, where only they can tell that nothing is left."""
PIDS = 1 << 22
"""The highest number of processes that Linux gives, before it begins again."""


def kill_descendants(reap: Callable[[], object], but: Collection[int] = ()) -> int:
    """Kill the descendants of this process, but not those in `but` and theirs. Returns how many do not die.

    `reap` reaps the ended children. All are stopped before the first is killed. A stopped process does not fork, but still
    counts towards a limit on processes, so this also ends a fork bomb.
    """
    until = time.monotonic() + KILL_WAIT
    searches = 0
    while True:
        reap()
        if not has_children():
            return 0  # as usually
        stopped: set[int] = set()
        while (new := (found := descendants(but)) - stopped) and time.monotonic() < until:
            stopped |= new
            signal_each(new, found, _signal.SIGSTOP)
        searches = 0 if found else searches + 1  # one that forks and ends at once may be missed
        signal_each(found, found, _signal.SIGKILL)
        if time.monotonic() > until or (but and searches == MOST_SEARCHES):
            return len(found)
        time.sleep(PAUSE)


def has_children() -> bool:
    """Whether this process has children. One that adopts orphans has no descendants then."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(but: Collection[int]) -> set[int]:
    """The descendants of this process, but not those in `but` and theirs.

    A child is stopped when it is seen, and the newest processes are looked at first: it may fork and end meanwhile.
    """
    children: dict[int, list[int]] = {}
    newest = 0
    with ignoring(OSError), open("/proc/loadavg", "rb") as file:  # a /proc of processes alone has no such file
        newest = int(file.read().split()[-1])
    me = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for pid in sorted(pids, key=lambda pid: (newest - pid) % PIDS):
        with ignoring(OSError):  # it has ended
            parent = parent_of(pid)
            children.setdefault(parent, []).append(pid)
            if parent == me and pid not in but:
                signal_each({pid}, set(), _signal.SIGSTOP)
    found: set[int] = set()
    near = [me]
    while near:
        near = [child for pid in near for child in children.get(pid, ()) if child not in but]
        found.update(near)
    return found


def signal_each(pids: set[int], family: set[int], number: int) -> None:
    """Signal these processes, if they are still in the family. Else their numbers belong to others by now."""
    for pid in pids:
        with ignoring(OSError):  # it has ended, or runs as another user now
            pidfd = os.pidfd_open(pid)
            try:
                if parent_of(pid) in {os.getpid(), *family}:
                    _signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)


def parent_of(pid: int) -> int:
    """The parent of a process. Raises `OSError`."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
