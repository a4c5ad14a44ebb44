"""A SQLite file of this user, which several programs use at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from ...errors import PicohookError
from ...wire.written_files import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 5.0
"""Seconds to wait for another program that writes."""


class DatabaseError(PicohookError):
    """The file cannot be used."""

    may_pass = False
    """Whether another program only keeps the file locked."""


def default_directory() -> str:
    """The directory of the files. Raises `PicohookError` if the user has none."""
    import platformdirs  # only for approvals

    directory = platformdirs.user_state_dir("picohook")
    if not os.path.isabs(directory):  # it would lie in the working directory, whose files are not the user's own
        raise PicohookError("approvals cannot be kept: XDG_STATE_HOME or HOME does not name a whole path")
    return os.path.join(directory, "approvals")


class Database:
    """A SQLite file in WAL mode. Only one thread may use an object at a time.

    A subclass has its name and the version of its schema, which is in a file beside this one. Every method raises
    `PicohookError` if the file cannot be used.
    """

    name: ClassVar[str]
    version_of_schema: ClassVar[int]

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory or default_directory()
        self.path = os.path.join(self.directory, self.name)
        with self._explained():
            self._make()
            self._db = self._connect(PATIENCE)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _make(self) -> None:
        """Make the directory and the file if they are missing. Raises `PicohookError` unless they are this user's alone.

        The file is not opened here: closing it would release SQLite's locks on it in this process.
        """
        make_directory(self.directory)
        _require_private(self.directory, stat.S_ISDIR, "a directory")
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(self.path, flags, 0o600))
        self._inode = _require_private(self.path, stat.S_ISREG, "a file").st_ino

    def _connect(self, timeout: float) -> sqlite3.Connection:
        uri = f"file:{quote(self.path)}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)

    def _prepare(self) -> None:
        self._db.execute("PRAGMA synchronous = NORMAL")
        if self._one("PRAGMA user_version") < self.version_of_schema:
            self._begin_wal()
            with self._writing():
                if self._one("PRAGMA user_version") < self.version_of_schema:
                    schema = Path(__file__).with_name(self.name).with_suffix(".sql").read_text("utf-8")
                    for statement in (*schema.split(";"), f"PRAGMA user_version = {self.version_of_schema}"):
                        self._db.execute(statement)
        version = self._one("PRAGMA user_version")
        if version != self.version_of_schema:
            why = f"is of version {version}, and this picohook knows {self.version_of_schema}: update picohook"
            raise PicohookError(f"{self.path}: {why}")

    def _begin_wal(self) -> None:
        """Switch to WAL. SQLite does not wait for another program that does the same."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                mode = self._one("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                if mode != "wal":
                    raise PicohookError(f"{self.path}: its file system cannot share it: set XDG_STATE_HOME")
                return

    def require_same_file(self) -> None:
        """Raise an error if the file was removed or replaced: this object would use what nobody else can see."""
        if os.stat(self.path).st_ino != self._inode:
            raise DatabaseError(f"{self.path}: was replaced: start the program again")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            hint = ": move it away" if "not a database" in str(error) or "malformed" in str(error) else ""
            raised = DatabaseError(f"{self.path}: {error}{hint}")
            raised.may_pass = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            raise raised from error
        except OSError as error:
            raise DatabaseError(f"{error.filename or self.path}: {error.strerror}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _one(self, statement: str, *values: Any) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return row and row[0]


def _require_private(path: str, is_kind: Any, kind: str) -> os.stat_result:
    """Returns the status of a file of this user's alone, and not of a link. Raises `PicohookError` for any other."""
    status = os.lstat(path)
    if not is_kind(status.st_mode):
        raise PicohookError(f"{path}: is not {kind} of approvals (a link is not followed): move it away")
    if status.st_uid != os.geteuid():
        raise PicohookError(f"{path}: belongs to another user: move it away, or set XDG_STATE_HOME")
    if status.st_mode & 0o077:
        raise PicohookError(f"{path}: other users may open it: chmod go= {path}")
    return status
