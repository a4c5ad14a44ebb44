"""A SQLite file of this user, which several programs use at once."""

import contextlib
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from ...engine.used_pauses import place_of_state
from ...errors import PicohookError
from ...wire.written_files import make_directory

PATIENCE = 5.0
"""Seconds to wait for another program that writes."""
_WAYS_OUT = {
    "not a database": "move it away",
    "malformed": "move it away",
    "readonly database": "make its file system writable, or set XDG_STATE_HOME",
    "unable to open": "make its file system writable, or set XDG_STATE_HOME",
}
"""What to do about an error of SQLite, by a part of its text."""


class Database:
    """A SQLite file in WAL mode, for several threads.

    A subclass has its name and the version of its schema, which is in a file beside this one. Every method raises
    `PicohookError` if the file cannot be used.
    """

    name: ClassVar[str]
    version_of_schema: ClassVar[int]

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory or place_of_state("approvals")
        self.path = os.path.join(self.directory, self.name)
        self._lock = threading.RLock()
        with self._explained():
            make_directory(self.directory)
            _require_private(self.directory, stat.S_ISDIR, "a directory")
            if not os.path.lexists(self.path):
                self._make()
            self._inode = _require_private(self.path, stat.S_ISREG, "a file").st_ino
            self._db = self._connect(PATIENCE)
            try:
                self._db.execute("PRAGMA synchronous = NORMAL")
                [[version]] = self._rows("PRAGMA user_version")
                if version != self.version_of_schema:
                    why = f"is of version {version}, and this picohook knows {self.version_of_schema}"
                    raise PicohookError(f"{self.path}: {why}: update picohook, or move it away")
                self._reading = self._connect(0.0)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file. A thread that uses it has finished then."""
        with self._lock:
            self._reading.close()
            self._db.close()

    def _make(self) -> None:
        """Make the file. It gets its name when it is whole, because several programs may do this at once."""
        new = os.path.join(self.directory, secrets.token_hex(8))
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        try:
            with contextlib.closing(sqlite3.connect(new)) as making:
                if making.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                    raise PicohookError(f"{self.path}: its file system cannot share it: set XDG_STATE_HOME")
                schema = Path(__file__).with_name(self.name).with_suffix(".sql").read_text("utf-8")
                making.executescript(f"{schema}PRAGMA user_version = {self.version_of_schema};")
            with contextlib.suppress(FileExistsError):
                os.link(new, self.path)
        finally:
            os.unlink(new)

    def _connect(self, timeout: float) -> sqlite3.Connection:
        uri = f"file:{quote(self.path)}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)

    def version(self) -> int:
        """Differs after each change of the file by any program. It waits for no program and no thread.

        Raises `PicohookError` if the file was removed or replaced: this object would use what nobody else can see.
        """
        try:  # not `with`, because hosts ask this at each call
            if os.stat(self.path).st_ino == self._inode:
                return self._reading.execute("PRAGMA data_version").fetchone()[0]  # type: ignore[no-any-return]
        except (OSError, sqlite3.Error) as error:
            raise self._explanation(error) from error
        raise PicohookError(f"{self.path}: was replaced: start the program again")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raises `PicohookError` for the errors of the file."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._explanation(error) from error

    def _explanation(self, error: OSError | sqlite3.Error) -> PicohookError:
        if isinstance(error, OSError):
            return PicohookError(f"{error.filename or self.path}: {error.strerror}")
        ways = [way for sign, way in _WAYS_OUT.items() if sign in str(error)]
        return PicohookError(": ".join([self.path, str(error), *ways]))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction."""
        with self._explained(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._explained(), self._lock:
            return self._db.execute(statement, values).fetchall()

    def _change(self, statement: str, *values: Any) -> int:
        """Make one change, which is a transaction. Returns the number of rows that it changed."""
        with self._explained(), self._lock:
            return self._db.execute(statement, values).rowcount


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
