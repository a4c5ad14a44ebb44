"""A run of the tests as one process among others, whoever starts it and however it ends.

A shell that starts the run in the background, and nohup, have it ignore signals, and every program that it starts would inherit
that. So an ignored signal gets a handler that does nothing: programs then start with the default.

All that the run starts carries a mark in its environment. A small process beside the run kills what has the mark once the run
is over, also where it was killed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest

MARK = "PICOHOOK_TEST_RUN"
ROUNDS, PAUSE = 100, 0.02


def begin() -> None:
    """Call this once in the process that runs the tests, and in each of its workers."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if MARK in os.environ or sys.platform != "linux":
        return
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), os.environ[MARK]]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={}, check=True)


def judged(report: pytest.TestReport, *, strict: bool) -> pytest.TestReport:
    """The report of a test; where they are `strict`, one that was skipped has failed."""
    if strict and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"it was skipped: {report.longrepr}"
    return report


def watch(run: int, mark: str) -> None:
    """In a daemon: wait until the run is over, and clear up after it. Returns at once in the process that was started."""
    over = select.poll()
    over.register(os.pidfd_open(run), select.POLLIN)
    if not os.fork():
        os.setsid()
        over.poll()
        clear(mark)


def clear(mark: str) -> None:
    """Kill all that carry the mark; what is killed may have started another one meanwhile."""
    for _ in range(ROUNDS):
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if carries(pid, mark)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(PAUSE)


def carries(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
