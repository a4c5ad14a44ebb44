"""A call through `picohook shim`, against a process for each hook, which is how the vendors' agents ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from picohook.ext.vendors.shim import client

from .given import HOOKS, Given
from .measure import Row, Timed, Times, alternate, blocking
from .sidecar import configuration

EVENT = json.dumps({
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls -la"},
    "tool_use_id": "t",
    "cwd": "/",
}).encode()  # fmt: skip
ISOLATED = [sys.executable, "-I", "-S"]


def _each(count: int, command: list[str], directory: Path) -> Timed:
    """The median time of one process."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(directory)}

    def once() -> None:
        done = subprocess.run(command, input=EVENT, cwd=directory, env=environment, capture_output=True, check=True)
        assert not done.stderr, done.stderr

    return blocking(once, count)


async def _against_a_process(given: Given) -> Times:
    count = given.times(64)
    with tempfile.TemporaryDirectory(prefix="p") as name:
        directory = Path(name)
        config = configuration(directory, given.echo)
        command = [*ISOLATED, client.__file__, "claude", "PreToolUse", "deny", "60", str(config)]
        try:
            return await alternate(
                given.rounds,
                shim=_each(count, command, directory),
                process=_each(count, [sys.executable, str(HOOKS / "once.py")], directory),
                bare=_each(count, [*ISOLATED, "-c", "pass"], directory),
            )
        finally:
            _end(directory)


def _end(directory: Path) -> None:
    """End the host, which would stay for a while."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"picohook.ext.vendors.shim.host" in words and any(
            word.startswith(os.fsencode(directory)) for word in words
        ):
            os.kill(int(status.parent.name), signal.SIGTERM)


def shim(given: Given) -> list[Row]:
    """An event through `picohook shim`."""
    at = anyio.run(_against_a_process, given)
    detail = {f"{name}_ms": round(at[name] * 1000, 2) for name in ("shim", "process", "bare")}
    return [
        Row(
            "a call of an agent through picohook shim, against a Python process for the hook",
            at.ratio("shim", "process"),
            must=1.0,
            detail=detail,
        ),
        Row(
            "a call of an agent through picohook shim, against python -I -S -c pass",
            at.ratio("shim", "bare"),
            must=1.5,
            detail=detail,
        ),
    ]
