"""Stops processes: in steps from a closed input to SIGKILL, or by SIGKILL at once."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import anyio

from .spawn import SpawnedProcess

KILL_WAIT = 2.0
"""Seconds that SIGKILL may take to end a process. Only a process that is stuck in the kernel takes longer."""


async def stop_in_steps(process: SpawnedProcess, ended: anyio.Event, steps: Sequence[tuple[int | None, float]]) -> bool:
    """Stop a process. Each step sends a signal, or none, and waits for some seconds. A last step sends SIGKILL.

    Returns False if the process survives. Every wait is bounded, and cancellation does not interrupt it.
    """
    for number, seconds in [*steps, (signal.SIGKILL, KILL_WAIT)]:
        if ended.is_set():
            return True
        if number is not None:
            process.signal(number)
        with anyio.move_on_after(seconds, shield=True):
            await ended.wait()
    for _ in range(2):
        if not ended.is_set():
            process.kill_launcher()
            with anyio.move_on_after(KILL_WAIT, shield=True):
                await ended.wait()
    return ended.is_set()


def signal_group(group: int, number: int) -> None:
    """Signal a process group, if it still exists. On macOS, a group of zombies raises `PermissionError`, which is ignored."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def kill_pidfd(pidfd: int) -> None:
    """Send SIGKILL to the process of a pidfd, unless it has ended."""
    with suppress(OSError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def kill_abandoned(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the group of a process whose event loop was closed. Only the process `owner` does so, not its forks."""
    if os.getpid() != owner or process.returncode is not None:
        return
    signal_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_WAIT)
