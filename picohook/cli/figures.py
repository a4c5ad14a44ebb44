"""What `picohook top` shows of a host: rates from two looks at it, and memory from the system."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SESSION, _RSS = 3, 21
"""Fields of /proc/PID/stat, counted from the one behind the name."""


class Look(NamedTuple):
    """A host's status, and when it was looked at."""

    status: Mapping[str, Any]
    at: float
    """Seconds, on a monotonic clock."""


def figures(before: Look | None, now: Look, memory: Mapping[int, int]) -> dict[str, Any]:
    """How the hooks do, as plain JSON. Without a look before this one there are no rates yet."""
    past = {} if before is None else {hook["name"]: hook for hook in before.status["hooks"]}
    seconds = None if before is None else now.at - before.at
    return {
        "containment": now.status["containment"],
        "hooks": [_hook(hook, past.get(hook["name"]), seconds, memory) for hook in now.status["hooks"]],
    }


def _hook(
    hook: Mapping[str, Any], past: Mapping[str, Any] | None, seconds: float | None, memory: Mapping[int, int]
) -> dict[str, Any]:
    asked = {} if past is None else past["stages"]
    stages = {
        name: {
            "calls": stage["executions"],
            "calls_per_second": _rate(stage["executions"], asked.get(name, {}).get("executions", 0), seconds),
            "p50_ms": stage["p50_ms"] if stage["executions"] else None,
            "p99_ms": stage["p99_ms"] if stage["executions"] else None,
            "failures": sum(stage["failures"].values()),
        }
        for name, stage in hook["stages"].items()
    }
    return {
        "name": hook["name"],
        "state": hook["state"],
        "pid": hook["pid"],
        "calls": sum(stage["calls"] for stage in stages.values()),
        "calls_per_second": None if seconds is None else sum(stage["calls_per_second"] for stage in stages.values()),
        "failures": sum(stage["failures"] for stage in stages.values()),
        "dropped": hook["dropped_events"] + hook["dropped_lines"],
        "restarts": max(hook["starts"] - 1, 0),
        "memory_bytes": memory.get(hook["pid"]),
        "last_error": hook["last_error"],
        "stages": stages,
    }


def _rate(count: int, before: int, seconds: float | None) -> float | None:
    """So many a second. A count that went down is another hook's, which came in between."""
    if seconds is None:
        return None
    return round((count - before if count >= before else count) / seconds, 3)


def memory(leaders: Collection[int], proc: str = "/proc") -> dict[int, int]:
    """Resident bytes of the sessions that these processes lead: each hook leads one. Nothing where there is no /proc."""
    held: dict[int, int] = {}
    try:
        numbers = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return held
    page = os.sysconf("SC_PAGE_SIZE")
    for number in numbers:
        try:
            with open(f"{proc}/{number}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        session = int(fields[_SESSION])
        if session in leaders:
            held[session] = held.get(session, 0) + int(fields[_RSS]) * page
    return held
