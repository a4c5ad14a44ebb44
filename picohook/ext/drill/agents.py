"""The agents that a drill can drive, as `agents.toml` has them, and how a program is run without a terminal."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Call: TypeAlias = tuple[str, str, dict[str, Any]]
"""A call of a tool: its id, the tool and the arguments. A tool of a namespace is called NAMESPACE/NAME."""
LIMIT = 120.0
"""Seconds after which a program is killed. A session with a late hook takes less."""
_TABLES = Path(__file__).with_name("agents.toml")
_WORDS = {"python": sys.executable, "server": str(Path(__file__).with_name("alone") / "marking.py")}


class Agent(SimpleNamespace):
    """One of the agents. `agents.toml` says what its keys mean."""

    def call(self, identity: str, kind: str, **words: Any) -> Call:
        """A call of the tool in the field `kind`, with these words in its arguments."""
        tool, arguments = getattr(self, kind)
        return identity, tool, filled(arguments, **words)


def filled(value: T, **words: Any) -> T:
    """The value with each `{word}` in its texts replaced. A text that is only the word becomes the value itself."""
    text = json.dumps(value)
    for word, given in {**_WORDS, **words}.items():
        text = text.replace(f'"{{{word}}}"', json.dumps(given)).replace(f"{{{word}}}", json.dumps(str(given))[1:-1])
    made: T = json.loads(text)
    return made


_EVERY, *_EACH = tomllib.loads(_TABLES.read_text(encoding="utf-8")).items()
AGENTS = {name: Agent(name=name, **{**_EVERY[1], **table}) for name, table in _EACH}


def run(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    output: Path,
    *,
    progress: Callable[[], Any] = int,
    patience: float = LIMIT,
) -> str:
    """Run a program without a terminal. Returns what it wrote.

    Kills it if `progress` returns the same value as it did `patience` seconds before.
    """
    with output.open("wb") as file:
        running = subprocess.Popen(  # noqa: S603 - the program of the user
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            before = None
            while running.poll() is None and (now := progress()) != before:
                before = now
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(patience)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
    return output.read_text(encoding="utf-8", errors="replace")
