"""Writes files for a user. A link in a repository is never followed, and a file is replaced in one step.

A repository comes from others, and so do its links: one may lead to any file of the user. So no link is followed below the
working directory, below a directory with `.git`, and below a directory that the caller names. The home directory is not one of
these, even if it has a `.git`. A link anywhere else is the user's own, such as one to a repository of settings. It is
followed, and so is each link in the place of a file that belongs to the user (`own`).
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO

from .regular_files import Identity, identity, read_rest, require_regular

MOST_BYTES_OF_FILE = 64 << 20
"""The most bytes of a file that is read to be edited."""
LOCK_WAIT = 5.0
"""Seconds to wait for another program that writes in the same directory."""
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
Path = str | os.PathLike[str]


class Place:
    """The place of a file: its directory, which is open and locked, and its name there. Every method raises `OSError`."""

    def __init__(self, directory: int, name: str) -> None:
        self._directory = directory
        self._name = name
        self.mode: int | None = None
        """The mode of the file that was read."""
        self._read = False
        self._seen: Identity | None = None

    def beside(self, suffix: str) -> "Place":
        """Returns the place in the same directory whose name has this suffix."""
        return Place(self._directory, self._name + suffix)

    def read(self, most: int = MOST_BYTES_OF_FILE) -> bytes | None:
        """Returns the bytes of the file; None without one. From then on, a file that was changed is not replaced."""
        self._read, self._seen = True, None
        status = self._status()
        if status is None:
            return None
        with open(os.open(self._name, os.O_RDONLY | _SAFE, dir_fd=self._directory), "rb") as file:
            status = require_regular(os.fstat(file.fileno()))
            self._seen, self.mode = identity(status), status.st_mode & 0o777
            return read_rest(file, most)

    def replace(self, data: bytes, *, mode: int | None = None) -> None:
        """Replace the file, or make it. The mode is that of `written`."""
        with self.written(mode=mode) as file:
            file.write(data)

    @contextlib.contextmanager
    def written(self, *, mode: int | None = None) -> Iterator[BinaryIO]:
        """A new file, which takes the place of this one once the block has ended.

        Without a `mode`, the mode and the owners stay, and a new file gets those of the umask.
        """
        before = self._status()
        new, descriptor = self._new(0o600 if before is not None or mode is not None else 0o644)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                if mode is None and before is not None:
                    with contextlib.suppress(PermissionError):  # the file of another user becomes this user's
                        os.fchown(descriptor, before.st_uid, before.st_gid)
                    mode = before.st_mode & 0o777
                if mode is not None:
                    os.fchmod(descriptor, mode)
                os.fsync(descriptor)
                self._require_seen()
                os.rename(new, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            with contextlib.suppress(OSError):  # some file systems cannot
                os.fsync(self._directory)  # otherwise a crash of the machine may bring back what was replaced
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=self._directory)
            raise
        self._read = False

    def require_writable(self) -> None:
        """Raise the error that `replace` would raise."""
        self._status()
        new, descriptor = self._new(0o600)
        os.close(descriptor)
        os.unlink(new, dir_fd=self._directory)

    def remove(self) -> None:
        """Remove the file."""
        self._require_seen()
        os.unlink(self._name, dir_fd=self._directory)

    def _new(self, mode: int) -> tuple[str, int]:
        """A new file beside this one: its name, which is short however long this one's is, and its descriptor."""
        new = f".picohook-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
        return new, os.open(new, flags, mode, dir_fd=self._directory)

    def _status(self) -> os.stat_result | None:
        """The status of the file; None without one. Raises `OSError` for anything but a regular file."""
        try:
            status = os.lstat(self._name, dir_fd=self._directory)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise _link_error(self._name, self._directory)
        return require_regular(status)

    def _require_seen(self) -> None:
        now = self._status() if self._read else None
        if self._read and (None if now is None else identity(now)) != self._seen:
            raise OSError(errno.ESTALE, "it changed after it was read: try again")


@contextlib.contextmanager
def place(path: Path, *, own: bool = False, below: Path | None = None, make: int | None = None) -> Iterator[Place]:
    """The place of a file, for one edit. Others that ask for a place in its directory wait. Raises `OSError`.

    `own`: the place is the user's own, so links are followed. `below`: no link below this directory is followed, and the file
    has to lie there. `make` is the mode of directories that are missing; without it they are not made.
    """
    with opened_directory(path, own=own, below=below, make=make) as (directory, name):
        lock(directory)
        yield Place(directory, name)


@contextlib.contextmanager
def replaced(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of the one at this path once the block has ended. Raises `OSError`.

    What is there and no regular file, such as a pipe or a terminal, is written to.
    """
    if is_special(path):
        with open(open_to_write(path, os.O_WRONLY), "wb") as file:
            os.set_blocking(file.fileno(), True)
            yield file
        return
    with place(path) as found, found.written(mode=mode) as file:
        yield file


def is_special(path: Path) -> bool:
    """Whether something is at a path, and is no regular file."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextlib.contextmanager
def opened_directory(
    path: Path, *, own: bool = False, below: Path | None = None, make: int | None = None
) -> Iterator[tuple[int, str]]:
    """The directory of a file, open, and the file's name there. The arguments are those of `place`. Raises `OSError`."""
    with _directory(path, _root(path, own=own, below=below), make) as (directory, name):
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            yield listed, name
        finally:
            os.close(listed)


def open_to_write(path: Path, flags: int, *, below: Path | None = None) -> int:
    """Returns a descriptor of a file that is written bit by bit. `below` is that of `place`. Raises `OSError`."""
    root = _root(path, own=False, below=below)
    if root is None:
        return os.open(path, flags | _SAFE & ~os.O_NOFOLLOW, 0o600)
    with _directory(path, root, None) as (directory, name):
        try:
            return os.open(name, flags | _SAFE, 0o600, dir_fd=directory)
        except OSError as error:
            raise (_link_error(name, directory) if error.errno == errno.ELOOP else error) from None


def make_directory(path: Path) -> None:
    """Make a directory, and those above it that are missing. Raises `OSError`."""
    inside = os.path.join(path, "file")
    with _directory(inside, _root(inside, own=False, below=None), 0o700):
        pass


@contextlib.contextmanager
def _directory(path: Path, root: str | None, make: int | None) -> Iterator[tuple[int, str]]:
    """The open directory of a file, and the file's name. Each directory below the root is opened in the one before."""
    full = os.path.abspath(path) if root is not None else os.path.realpath(path)
    root = root or "/"
    if os.path.commonpath((full, root)) != root:
        raise PermissionError(errno.EPERM, f"it lies outside of {root}")
    if full == root:
        raise IsADirectoryError(errno.EISDIR, "it is a directory, not a file")
    *steps, name = os.path.relpath(full, root).split(os.sep)
    here = os.open(root, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            inside = _step(here, step, make)
            os.close(here)
            here = inside
        yield here, name
    finally:
        os.close(here)


def _step(directory: int, name: str, make: int | None) -> int:
    flags = _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        if make is None:
            raise
    except OSError as error:
        raise (_link_error(name, directory) if error.errno in {errno.ENOTDIR, errno.ELOOP} else error) from None
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, make, dir_fd=directory)
    return os.open(name, flags, dir_fd=directory)


def _root(path: Path, *, own: bool, below: Path | None) -> str | None:
    """The directory below which no link is followed; None if every link on the way is the user's own."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "its name holds a NUL character")
    if own:
        return None
    if below is not None:
        return os.path.abspath(below)
    full, home = os.path.abspath(path), os.path.expanduser("~")
    # Names are compared: a link to the home directory may be anybody's. A relative HOME may be a directory of the project.
    homes = (f"{home}/", f"{os.path.realpath(home)}/") if os.path.isabs(home) else ()
    found, step, here = None, os.path.dirname(full), ""
    with contextlib.suppress(FileNotFoundError):  # it was removed
        here = os.getcwd()
    while step != os.path.dirname(step):
        if any(one.startswith(f"{step}/") for one in homes):
            break
        if os.path.realpath(step) == here or os.path.lexists(os.path.join(step, ".git")):
            found = step
        step = os.path.dirname(step)
    return found


def _link_error(name: str, directory: int) -> OSError:
    """The error for a link that is not followed, or for a file in place of a directory."""
    try:
        target = os.readlink(name, dir_fd=directory)
    except OSError:
        return NotADirectoryError(errno.ENOTDIR, f"{name} is not a directory")
    hint = "name what it leads to, or put that in its place"
    return OSError(errno.ELOOP, f"{name} is a link to {target}, and links in a project are not followed ({hint})")


def lock(directory: int) -> None:
    """Lock a directory until it is closed. Some network file systems have no such locks."""
    until = time.monotonic() + LOCK_WAIT
    while True:
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "another program keeps its directory locked") from None
            time.sleep(0.01)
        except OSError:
            return None
