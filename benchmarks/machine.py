"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARIES = ("uvloop", "trio", "mcp", "orjson", "pydantic")


def about(peers: Path, commit: str, load: float, seconds: float) -> dict[str, object]:
    """Machine, versions and the load of a run that has just ended."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return {
        "day": time.strftime("%Y-%m-%d"),
        "seconds": round(seconds),
        "processor": model or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "go": _said("go", "env", "GOVERSION", cwd=peers).removeprefix("go"),
        "picoclaw": commit,
        "picohook": _said("git", "log", "-1", "--format=%h", cwd=ROOT),
        **{name: version(name) for name in LIBRARIES},
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _said(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False).stdout.strip()
