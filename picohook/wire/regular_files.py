"""Reads files that others may have put there: only regular files, without waiting, and no more than a limit."""

import errno
import os
import stat
from typing import BinaryIO

Identity = tuple[int, ...]
"""One state of a file: its device, inode, size, and the times of its last changes."""


def open_regular(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """A descriptor to read a regular file from, and its status. Raises `OSError`.

    Other files are not opened: opening a named pipe would wait for a writer, and opening a device can have effects.
    """
    require_regular(os.stat(path))
    # By now the name may belong to a named pipe: O_NONBLOCK keeps this from waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = require_regular(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def read_rest(file: BinaryIO, most: int) -> bytes:
    """The rest of an open file, which is closed afterwards. Raises `OSError`, also if it is more than `most` bytes."""
    with file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large(most)
    return data


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file. Raises `OSError`, also if it has more than `most`."""
    return read_rest(open(open_regular(path)[0], "rb"), most)


def identity(status: os.stat_result) -> Identity:
    """The state of a file. Moving a file away and back changes it: a rename sets the `ctime`."""
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns


def changed_at(one: Identity) -> int:
    """The time at which the file entered this state, in nanoseconds."""
    return one[3]


def too_large(most: int) -> OSError:
    """The error for a file of more than `most` bytes."""
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}")


def require_regular(status: os.stat_result) -> os.stat_result:
    """Returns the status of a file. Raises `OSError` if it is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return status
