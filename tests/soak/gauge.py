"""What a host uses, and what its hooks left behind, as /proc says."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Used:
    """How many of what has to stay the same."""

    descriptors: int
    threads: int
    zombies: int
    tasks: int

    @classmethod
    def now(cls) -> Used:
        return cls(len(os.listdir("/proc/self/fd")), threads(), zombies(), tasks())

    def since(self, before: Used) -> dict[str, int]:
        earlier = asdict(before)
        return {name: value - earlier[name] for name, value in asdict(self).items()}


def waited() -> float:
    """Seconds that this thread was ready to run and had no processor: what the machine took, and no host can give back."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def threads() -> int:
    """How many threads there are, without those that an event loop keeps for its next piece of work."""
    return sum(not thread.name.startswith(("AnyIO", "Trio")) for thread in threading.enumerate())


def tasks() -> int:
    """How many tasks the event loop has."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio  # only where it runs

        return trio.lowlevel.current_statistics().tasks_living


def resident() -> int:
    """Bytes of memory that this process needs: without garbage, and without what the allocator only keeps for later."""
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def zombies() -> int:
    """Children of this process that have ended and were not reaped."""
    found = 0
    for pid in _processes():
        try:
            state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[:2]
        except (OSError, IndexError):
            continue
        found += state == "Z" and int(parent) == os.getpid()
    return found


def marked(mark: str) -> list[int]:
    """The processes that have this in their environment."""
    return [pid for pid in _processes() if pid != os.getpid() and has_mark(pid, mark)]


def has_mark(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def slope(samples: list[tuple[float, int]]) -> float:
    """The trend of what was sampled over time, in units a second."""
    if len(samples) < 2:
        return 0.0
    mean_time = sum(time for time, _ in samples) / len(samples)
    mean = sum(value for _, value in samples) / len(samples)
    spread = sum((time - mean_time) ** 2 for time, _ in samples)
    return sum((time - mean_time) * (value - mean) for time, value in samples) / spread if spread else 0.0


if sys.platform != "linux":
    raise SystemExit("the soak looks at processes through /proc: it runs on Linux")
