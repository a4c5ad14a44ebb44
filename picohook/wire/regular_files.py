"""Reading files that somebody else may have put there: regular files only, never waiting, never more than a limit."""

from __future__ import annotations

import errno
import os
import stat

Identity = tuple[int, ...]
"""What tells one state of a file from another: device, inode, size, and the times of the last changes."""


def open_regular(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """A descriptor to read a regular file from, and its status. Raises `OSError`.

    Nothing else is opened: a named pipe would wait for a writer, and opening a device can have effects.
    """
    _require_regular(os.stat(path))
    # The name may be something else by now. Then O_NONBLOCK keeps the call from waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        _require_regular(status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def read_open(descriptor: int, most: int) -> bytes:
    """The rest of an open file. Raises `OSError`, also where that is more than `most` bytes."""
    parts, left = [], most + 1
    while left and (data := os.read(descriptor, min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    if not left:
        raise too_large(most)
    return b"".join(parts)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file. Raises `OSError`, also where they are more than `most`."""
    descriptor, status = open_regular(path)
    try:
        if status.st_size > most:
            raise too_large(most)
        return read_open(descriptor, most)
    finally:
        os.close(descriptor)


def identity(status: os.stat_result) -> Identity:
    """The state of a file. A file that was moved away and back has another one: a rename sets its `ctime`."""
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns


def changed_at(one: Identity) -> int:
    """When this state of a file came to be, in nanoseconds."""
    return one[3]


def too_large(most: int) -> OSError:
    """The error for a file of more bytes than this."""
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}")


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
