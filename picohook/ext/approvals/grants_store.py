"""The grants of this user, in one SQLite file that several programs use at once."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import PicohookError
from .database import Database
from .grants import Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_COLUMNS = ("given", "until", "left", "by")
_HOLDS = "given <= ? AND until > ? AND (left IS NULL OR left > 0)"


class Found(NamedTuple):
    """A grant that answers for a call."""

    id: str
    given: float
    until: float
    by: str
    left: int | None

    @property
    def shown(self) -> str:
        """Its name, and when it was given."""
        return f"grant {self.id} of {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.given))}"


class GrantStore(Database):
    """The grants of this user.

    `version`, `forms` and `find` are for the event loop: they wait for no other program. A thread may call others.
    """

    name = "grants.db"
    version_of_schema = 2

    def __init__(self, directory: str | None = None) -> None:
        super().__init__(directory)
        self._reading = self._connect(0.0)

    def give(self, grant: Grant, key: str, start: str, form: str) -> None:
        """Keep a grant under its key. The grants that have ended are forgotten."""
        terms = {name: value for name, value in asdict(grant).items() if name not in {"id", *_COLUMNS}}
        columns = (grant.id, key, grant.given, grant.until, grant.left, grant.by, json.dumps(terms))
        with self._writing():
            self._db.execute("DELETE FROM grants WHERE until < ?", (time.time(),))
            self._db.execute("DELETE FROM forms WHERE NOT EXISTS (SELECT 1 FROM grants)")
            self._db.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?)", columns)
            self._db.execute("INSERT OR IGNORE INTO forms VALUES (?, ?)", (start, form))

    def forms(self, starts: Sequence[str]) -> list[tuple[str, str]]:
        """The forms of the grants that there are for each start of a key."""
        with self._explained():
            asked = f"SELECT start, form FROM forms WHERE start IN ({_marks(starts)})"
            return [*self._reading.execute(asked, starts)]

    def version(self) -> tuple[int, int]:
        """Differs after each change of the file. Raises `PicohookError` if it was removed: nobody could revoke its grants."""
        with self._explained():
            self.require_same_file()
            return self._reading.execute("PRAGMA data_version").fetchone()[0], self._inode

    def find(self, keys: Sequence[str]) -> Found | None:
        """A grant with one of these keys, rather one that is not counted."""
        now = time.time()
        wanted = f"key IN ({_marks(keys)}) AND {_HOLDS} ORDER BY left LIMIT 1"
        with self._explained():
            asked = f"SELECT id, given, until, by, left FROM grants WHERE {wanted}"
            row = self._reading.execute(asked, (*keys, now, now)).fetchone()
        return row and Found(*row)

    def use(self, counted: Iterable[str]) -> None:
        """Use each of these counted grants once. Raises `PicohookError`, and uses none, if one of them is used up or over."""
        with self._writing():
            for one in counted:
                now = time.time()
                used = self._db.execute(f"UPDATE grants SET left = left - 1 WHERE id = ? AND {_HOLDS}", (one, now, now))
                if not used.rowcount:
                    raise PicohookError(f"the grant {one} is used up")

    def all(self) -> list[Grant]:
        """The grants that hold, the last one first."""
        now = time.time()
        asked = f"SELECT id, terms, {', '.join(_COLUMNS)} FROM grants WHERE {_HOLDS} ORDER BY given DESC"
        with self._explained():
            rows = self._db.execute(asked, (now, now)).fetchall()
        return [_grant(*row) for row in rows]

    def revoke(self, ids: Iterable[str]) -> int:
        """End these grants now. Returns how many held."""
        with self._writing():
            return sum(self._db.execute("DELETE FROM grants WHERE id = ?", (one,)).rowcount for one in ids)

    def count(self) -> int:
        """The number of grants that are kept."""
        with self._explained():
            return int(self._reading.execute("SELECT count(*) FROM grants").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._reading.close()
        super().close()


def new_id() -> str:
    """A new id for a grant: short, because people type it."""
    return secrets.token_hex(4)


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _grant(grant: str, terms: str, *columns: Any) -> Grant:
    try:
        return Grant(grant, **json.loads(terms), **dict(zip(_COLUMNS, columns, strict=True)))
    except (ValueError, TypeError):
        raise PicohookError(f"the grant {grant} is damaged: picohook grants revoke {grant}") from None
