"""Reads the text of a file for a handler."""

from __future__ import annotations

import errno

from ...errors import HookCrashedError
from ...wire.regular_files import read_regular

_WITHOUT_TEXT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL})
"""The errors for a path that leads to no regular file."""


def file_text(path: str, limit: int) -> str:
    """The text of a regular file of at most `limit` bytes; empty without a file. Raises `HookCrashedError` for another."""
    try:
        return read_regular(path, limit).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _WITHOUT_TEXT:
            return ""
        why = getattr(error, "strerror", None) or error
        raise HookCrashedError(f"the file that it is asked about cannot be read: {why}") from None
