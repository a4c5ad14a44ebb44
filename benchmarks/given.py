"""What every benchmark is given: the hooks, and how much work is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio

from picohook import HookSpec, Timeouts, ToolCall

HOOKS = Path(__file__).parent / "hooks"
CALL = ToolCall(tool="bash", arguments={"command": "ls -la"})
FAR = Timeouts(interceptor=60, chain=300, observer=60, hello=60)
PLAIN = [sys.executable, "-S", str(HOOKS / "echo.py")]
HUGE = 256 * 1024 * 1024


@dataclass(frozen=True)
class Given:
    """How much is done, and the compiled hook and forwarder of bytes."""

    rounds: int
    scale: float
    echo: str
    forward: str
    peers: Path | None = None
    """A checkout of PicoClaw."""

    def times(self, count: int) -> int:
        """So often, at the scale that was asked for."""
        return max(1, round(count * self.scale))


def build(directory: Path, name: str) -> str:
    """A compiled program."""
    program = directory / name
    subprocess.run(["cc", "-O2", "-o", str(program), str(HOOKS / f"{name}.c")], check=True)
    return str(program)


def hook(name: str, *command: str, **more: Any) -> HookSpec:
    """A hook of a benchmark, without what containment would add to its start."""
    return HookSpec(name=name, command=command, **{"stages": ["before_tool"], **more})


T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

LOOPS = ("asyncio", "uvloop", "trio")


def on(loop: str, work: Work[T]) -> T:
    """What the work measured, on this event loop."""
    if loop == "trio":
        return anyio.run(work, backend="trio")
    return anyio.run(work, backend="asyncio", backend_options={"use_uvloop": loop == "uvloop"})
