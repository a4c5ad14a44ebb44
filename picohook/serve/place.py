"""The control socket's place in the file system: nobody else's, and closed to all others from its first moment."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAIM_TRIES = 100
CLAIM_PAUSE = 0.01


async def lock(directory: str) -> Any:
    """Hold the directory against other hosts that make a socket in it, for the few moments that this takes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(CLAIM_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await anyio.sleep(CLAIM_PAUSE)
            else:
                return _held(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise PicohookError(f"a control socket cannot be made in {directory}: another program holds it locked")


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def require_free(path: str) -> None:
    """Raise unless there is nothing, or a socket at which nobody listens any more."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PicohookError(f"{path} is no socket: the control socket needs a path of its own")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # so many wait for an answer that it has to be somebody's
    raise PicohookError(f"another host has its control socket at {path}")


def listen(path: str) -> socket.socket:
    """A listening socket there, closed to all others from its first moment: it is made where nobody else gets, and moved."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as private:
            new = os.path.join(private, "s")
            listener.bind(new)
            os.chmod(new, 0o600)
            listener.listen()
            listener.setblocking(False)
            os.rename(new, path)
    except BaseException:
        listener.close()
        raise
    return listener


def inode(path: str) -> tuple[int, int] | None:
    """What tells this socket from another one made there later."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
