"""Where a server listens: a path that is nobody else's and closed to all others from its first moment, or a port."""

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
BACKLOG = 128
LONGEST_PATH = 103
"""Bytes: what every system takes for the path of a socket."""


class Place:
    """A listening socket, and its name."""

    def __init__(self, listener: socket.socket, path: str = "") -> None:
        self.listener = listener
        self.path = path
        """Of a Unix socket."""
        self._inode = _inode(path) if path else None
        self._owner = os.getpid()

    @classmethod
    async def at(cls, path: str | os.PathLike[str], noun: str) -> Place:
        """A Unix socket. `noun` is what it is for: "the control socket".

        What a dead program left there is replaced; that another one lives there, or that there is something else, is a
        `PicohookError`.
        """
        path = os.path.abspath(path)  # noqa: ASYNC240 - here and below: looks at a directory, and does not wait
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise PicohookError(f"{noun} {path} cannot be made: its path has more than {LONGEST_PATH} bytes")
        try:
            with await _lock(os.path.dirname(path)):
                _require_free(path, noun)
                return cls(_listen(path), path)
        except OSError as error:
            raise PicohookError(f"{noun} {path} cannot be made: {error.strerror or error}") from None

    @classmethod
    def on_port(cls, host: str, port: int, noun: str) -> Place:
        """A port of a host's address. Raises `PicohookError`."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, UnicodeError) as error:  # the latter of a name that can be none
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise PicohookError(f"{noun} {host}:{port} cannot be made: {why}") from None
        listener.setblocking(False)
        return cls(listener)

    @property
    def port(self) -> int:
        """Of a listener on a port, also where any would do."""
        return int(self.listener.getsockname()[1])

    def hide(self) -> None:
        """Nobody else finds it. The path goes, if there is still this socket at it."""
        if self._owner == os.getpid() and self._inode is not None and _inode(self.path) == self._inode:
            os.unlink(self.path)
        self._inode = None

    def leave(self) -> None:
        """Listen no more."""
        self.hide()
        self.listener.close()


async def _lock(directory: str) -> Any:
    """Hold the directory against others that make a socket in it, for the few moments that this takes."""
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
    raise PicohookError(f"a socket cannot be made in {directory}: another program holds it locked")


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _require_free(path: str, noun: str) -> None:
    """Raise unless there is nothing, or a socket at which nobody listens any more."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PicohookError(f"{path} is no socket: {noun} needs a path of its own")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # so many wait for an answer that it has to be somebody's
    raise PicohookError(f"another program listens at {path}: {noun} needs a path of its own")


def _listen(path: str) -> socket.socket:
    """A listening socket there, closed to all others from its first moment: it is made where nobody else gets, and moved."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as private:
            new = os.path.join(private, "s")
            listener.bind(new)
            os.chmod(new, 0o600)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            os.rename(new, path)
    except BaseException:
        listener.close()
        raise
    return listener


def _inode(path: str) -> tuple[int, int] | None:
    """What tells this socket from another one made there later."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
