"""What handlers get beside the event: the text of a file, and variables that handlers of the same file have set."""

from __future__ import annotations

import errno
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from ...errors import HookCrashedError
from ...wire.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...hooks.base import HostServices

K = TypeVar("K")
W = TypeVar("W")
MOST_SESSIONS = 4096
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


class Recent(OrderedDict[K, W]):
    """The newest entries. One more than `MOST_SESSIONS` forgets the oldest."""

    def __setitem__(self, key: K, value: W) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > MOST_SESSIONS:
            self.popitem(last=False)


class SessionEnv:
    """The variables of each file and session. The oldest sessions are forgotten.

    A file never sets variables for another one: a project's file could otherwise disable the guards of its user.
    """

    def __init__(self, _host: HostServices | None = None) -> None:
        self._set: Recent[tuple[str, str], dict[str, str]] = Recent()

    def add(self, file: str, session: str, env: Mapping[str, str]) -> None:
        """Set variables for the handlers of a file that run later in a session."""
        self._set[file, session] = {**self.of(file, session), **env}

    def of(self, file: str, session: str) -> Mapping[str, str]:
        """The variables for the handlers of a file in a session."""
        return self._set.get((file, session), {})
