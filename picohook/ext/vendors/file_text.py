"""Reads the text of a file for a handler."""

from __future__ import annotations

import os
import stat

from ...errors import HookCrashedError


def file_text(path: str, limit: int) -> str:
    """The text of a file; empty without one.

    Raises `HookCrashedError` if it cannot be read, or has more bytes than the limit. Only a regular file has a text, so this
    never waits for a pipe or a device.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        raise HookCrashedError(f"the file that it is asked about cannot be read: {error}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise HookCrashedError(f"the file that it is asked about cannot be read: {error}") from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise HookCrashedError(f"the file that it is asked about has more than {limit} bytes")
    return data.decode("utf-8", "replace")
