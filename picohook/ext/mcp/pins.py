"""The pins of an MCP server: the digests of its tools as they were first seen.

Each command of a server has a file of its own: `{"version": 1, "command": COMMAND, "tools": {TOOL: DIGEST}}`.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...config import files, user_places
from ...config.problems import Problems
from ...errors import ConfigError, Problem
from ...wire.text import escape

VERSION = 1
MOST_BYTES_OF_PINS = 4 << 20
"""The most bytes of a file."""


def path(command: Sequence[str]) -> Path:
    """The file with the pins of this command. Raises `ConfigError`."""
    digest = hashlib.sha256("\0".join(command).encode("utf-8", "surrogateescape")).hexdigest()
    return user_places.configuration() / "mcp-pins" / f"{digest[:32]}.json"


def read(command: Sequence[str]) -> dict[str, str]:
    """The digests by the names of tools; empty if there are none yet. Raises `ConfigError` if the file cannot be used."""
    file = path(command)
    if not os.path.lexists(file):
        return {}
    try:
        document: Any = json.loads(files.read(file, Problems(str(file)), MOST_BYTES_OF_PINS))
    except (ValueError, RecursionError):
        document = None
    tools = document.get("tools") if isinstance(document, dict) and document.get("version") == VERSION else None
    if not isinstance(tools, dict) or not all(isinstance(digest, str) for digest in tools.values()):
        problem = Problem(
            escape(str(file)), "", "is damaged, or was written by a newer picohook", "picohook mcp --unpin removes it"
        )
        raise ConfigError([problem])
    return tools


def write(command: Sequence[str], tools: dict[str, str]) -> None:
    """Replace the file. Raises `ConfigError` if it cannot be written."""
    files.replace(path(command), {"version": VERSION, "command": shlex.join(command), "tools": tools})


def remove(command: Sequence[str]) -> bool:
    """Forget the pins of a command. Returns whether there were any. Raises `ConfigError` if the file cannot be removed."""
    file = path(command)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError([Problem(escape(str(file)), "", f"cannot be removed: {error.strerror}")]) from None
    return True
