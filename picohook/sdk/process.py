"""A hook's process: its standard streams are reserved for the protocol, and SIGTERM and SIGINT end it cleanly."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


class Stopped(SystemExit):
    """Raised in the main thread when a signal asks this process to end."""


def own_streams() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol. Returns their new descriptors, which no child process inherits.

    Other output of the hook, its libraries and its child processes to stdout goes to stderr. Their stdin is empty.
    """
    stdin, stdout = os.dup(0), os.dup(1)
    for descriptor in (stdin, stdout):
        os.set_blocking(descriptor, True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return stdin, stdout


def stop_on_signals() -> None:
    """Raise `Stopped` in the main thread on SIGTERM and SIGINT. A second signal ends the process at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        raise Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
