"""Locked files that show which programs live. The system releases a lock when its program ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets

SUFFIX = ".alive"
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC


class Presence:
    """A file that is locked for as long as this program lives, or until `close`. Raises `OSError`."""

    def __init__(self, directory: str) -> None:
        while True:
            self.name = secrets.token_hex(8)
            self._path = os.path.join(directory, self.name + SUFFIX)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(self._descriptor).st_nlink:
                    return
            os.close(self._descriptor)  # a program that looks for dead ones came between, and removes the file

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def is_alive(directory: str, name: str) -> bool:
    """Whether the program with this presence still runs. If not, its file is removed."""
    path = os.path.join(directory, name + SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFE)
    except OSError as error:  # too many open files, for example, say nothing about the program
        return not isinstance(error, FileNotFoundError)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(descriptor)


def remove_dead(directory: str) -> None:
    """Remove the files of programs that were killed. Raises `OSError`."""
    for name in os.listdir(directory):
        if name.endswith(SUFFIX):
            is_alive(directory, name.removesuffix(SUFFIX))
