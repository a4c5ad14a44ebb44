"""The differences between Linux and macOS, each in one place. Standard library only.

Every function reads `LINUX`. A test that sets it to False runs a host as on macOS.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading

TYPE_CHECKING = False  # as in `words`
if TYPE_CHECKING:
    import subprocess

LINUX = sys.platform == "linux"
PF_EXITING = 0x4
"""The flag of a process that is ending, in proc(5)."""

WINDOWS_REFUSED = (
    "picohook runs hooks on Linux and macOS only: on Windows, run it in WSL (Windows Subsystem for Linux)."
    " The SDK for hook authors (picohook.sdk) can be imported everywhere"
)


def require_posix() -> None:
    """Raises `ImportError` on Windows, which has neither the pipes nor the process groups that a host needs."""
    if os.name != "posix":
        raise ImportError(WINDOWS_REFUSED)


def launchers_lack() -> str:
    """The reason why launchers, which need pidfds, namespaces and /proc, cannot run on this system; empty if they can."""
    return "" if LINUX and hasattr(os, "pidfd_open") else "only Linux has it"


def runs_descriptors() -> bool:
    """Whether a program can be started by its open descriptor, through `path_of_descriptor`."""
    return LINUX


def path_of_descriptor(descriptor: int) -> str:
    """A path to an open file of this process."""
    return f"/proc/self/fd/{descriptor}"


def pipe_size_command() -> int:
    """The `fcntl` command that sets the capacity of a pipe; 0 without one."""
    if not LINUX:
        return 0
    import fcntl  # Windows has none

    return getattr(fcntl, "F_SETPIPE_SZ", 0)


def uvloop_has_monotonic_time() -> bool:
    """Whether the clock of uvloop is `time.monotonic`."""
    return LINUX


def is_ending(pid: int) -> bool:
    """Whether the kernel is ending this process or has ended it. Always true where the kernel does not say so.

    The kernel closes the pipes of a process before it reports the end. On a busy machine there is time between the two.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            flags = file.read().rpartition(b")")[2].split()[6]
    except OSError:
        return True
    return not LINUX or bool(int(flags) & PF_EXITING)


def how_it_ended(code: int) -> str:
    """Returns the end of a process, in words, by its exit code as in `subprocess`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1


def exit_descriptor(process: subprocess.Popen[bytes]) -> int:
    """A descriptor that becomes readable when the process has ended. Raises `OSError`.

    It is a pidfd on Linux. Elsewhere it is a pipe, which a thread closes when the process ends. This does not reap the process,
    except on macOS before Python 3.13, which has no `waitid`.
    """
    if LINUX and hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno not in {errno.ENOSYS, errno.EPERM}:
                raise
    readable, writable = os.pipe()

    def wait() -> None:
        try:
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
        except ChildProcessError:
            pass  # the program ignores SIGCHLD, so the kernel has reaped it
        os.close(writable)

    try:
        threading.Thread(target=wait, name=f"picohook wait {process.pid}", daemon=True).start()
    except RuntimeError as error:
        os.close(readable)
        os.close(writable)
        raise OSError(errno.EAGAIN, str(error)) from None
    return readable
