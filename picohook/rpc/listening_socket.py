"""A listening socket, at a path that only its owner may open."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from ..errors import PicohookError
from ..wire.written_files import lock, opened_directory

if TYPE_CHECKING:
    from typing import Self

BACKLOG = 128
LONGEST_PATH = 103
"""The most bytes that every system takes for the path of a socket."""


class ListeningSocket:
    """A Unix socket that listens, and its file."""

    def __init__(self, listening: socket.socket, path: str) -> None:
        self.socket = listening
        self.path = path
        """The path of its file."""
        self._inode = _inode(path)
        self._owner = os.getpid()

    @classmethod
    async def at_path(cls, path: str | os.PathLike[str], noun: str) -> ListeningSocket:
        """Listen at a Unix socket. `noun` names it in messages: "the control socket".

        Replaces a socket that a dead program left. Raises `PicohookError` if another program listens there, or if the path
        is not a socket.
        """
        path = os.path.abspath(path)  # noqa: ASYNC240 - here and below: looks at a directory, and does not wait
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise PicohookError(f"{noun} {path} cannot be made: its path has more than {LONGEST_PATH} bytes")
        try:
            return await anyio.to_thread.run_sync(cls._made, path, noun)
        except OSError as error:
            raise PicohookError(f"{noun} {path} cannot be made: {error.strerror or error}") from None

    @classmethod
    def _made(cls, path: str, noun: str) -> Self:
        with opened_directory(Path(path)) as (directory, _):
            lock(directory)  # against other programs that make a socket in it
            _require_free(path, noun)
            return cls(_listen(path, directory), path)

    def unlink(self) -> None:
        """Remove the socket's file, so that no more clients find it. Leaves a file that another program put there."""
        if self._owner == os.getpid() and self._inode is not None and _inode(self.path) == self._inode:
            os.unlink(self.path)
        self._inode = None

    def close(self) -> None:
        """Stop listening, and remove the socket's file."""
        self.unlink()
        self.socket.close()


def _require_free(path: str, noun: str) -> None:
    """Raise `PicohookError` unless the path is free, or a socket without a listening program."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PicohookError(f"{path} is not a socket: {noun} needs a path of its own")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # its queue of clients is full, so a program listens
    raise PicohookError(f"another program listens at {path}: {noun} needs a path of its own")


def _listen(path: str, directory: int) -> socket.socket:
    """Returns a socket that listens at the path. It is made in a private directory and moved, so other users never see it."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as private:
            new = os.path.join(private, "s")
            listening.bind(new)
            os.chmod(new, 0o600)
            listening.listen(BACKLOG)
            listening.setblocking(False)
            os.rename(new, os.path.basename(path), dst_dir_fd=directory)
    except BaseException:
        listening.close()
        raise
    return listening


def _inode(path: str) -> tuple[int, int] | None:
    """Device and inode of the file, which differ for a file that replaced it. None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
