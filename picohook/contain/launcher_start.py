"""Starts and reaps launchers, and checks whether one can run here."""

import fcntl
import os
import signal
import socket
import sys
from contextlib import suppress

from ..wire.platforms import launchers_lack

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = "import sys; sys.path.append(sys.argv[3]); from contain.launcher_program import main; main()"
"""The program of a launcher. It imports compiled files, because a script would be compiled at each start."""
CONTROL = 3  # as in `keeper`, which the host does not load
KEPT = ("LD_LIBRARY_PATH",)
"""The only variables that a launcher gets. As root, hooks can read its environment: the first process of their namespace is a
copy of it."""
CLOSE_WAIT = 5.0
"""Seconds that a launcher may take to kill the remaining processes, and end."""


class TierUnavailableError(Exception):
    """This machine cannot run a launcher, or cannot run one with this tier."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting
        """Whether the machine is the cause, so that another try would fail too."""


def check_available() -> None:
    """Raises `TierUnavailableError` if a launcher cannot run here."""
    if why := launchers_lack():
        raise TierUnavailableError(why)
    if not sys.executable or getattr(sys, "frozen", False) or "py" not in os.path.basename(sys.executable).lower():
        raise TierUnavailableError("the launcher needs a Python to run it, and this program is not one")


def start_launcher(theirs: socket.socket, tier: str) -> tuple[int, int]:
    """Start a launcher with this socket. Returns its pid and a pidfd. Raises `OSError`."""
    # Above the descriptors that the actions below replace.
    end = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, CONTROL + 1)
    try:
        # Not Popen, which warns if it is freed while the process runs. A launcher ends by itself then.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", PROGRAM, str(os.getpid()), tier, PACKAGES],
            {name: os.environ[name] for name in KEPT if name in os.environ},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, end, CONTROL),
            ],
            setpgroup=0,  # not a session of its own: its hooks can be in the host's
            setsigmask=(),  # hooks do not inherit the blocked signals of the host's thread
        )
    finally:
        os.close(end)
    try:
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


def reap(pidfd: int) -> None:
    """Reap a process that has ended, if it is a child of this process."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
