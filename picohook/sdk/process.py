"""The process that a hook is: its standard streams belong to the protocol, and its signals end it cleanly."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


class Stopped(SystemExit):
    """A signal asked this process to end."""


def own_streams() -> tuple[int, int]:
    """Take stdin and stdout for the protocol alone.

    What the hook prints, what its libraries write to descriptor 1, and what the programs say that it starts, goes to stderr;
    and none of them finds anything on stdin. The descriptors that come back are inherited by no child.
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
    """On SIGTERM and SIGINT, raise `Stopped`, wherever the main thread is. A second signal ends the process at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        raise Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
