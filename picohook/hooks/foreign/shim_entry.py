"""Recognises the entries that `picohook shim` writes into hook files of other systems. picohook itself never runs them."""

from __future__ import annotations

import os
import shlex

CLIENT = os.path.join("picohook", "serve", "shim", "client.py")
"""The end of the path of the program that they run."""


def is_shim(command: object) -> bool:
    """Whether a command of a hook file starts the client of `picohook shim`."""
    if not isinstance(command, str) or CLIENT not in command:
        return False
    try:
        return any(word.endswith(os.sep + CLIENT) for word in shlex.split(command))
    except ValueError:
        return False
