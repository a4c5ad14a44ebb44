"""The grants of this user, in one SQLite file that several programs use at once."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from ...errors import PicohookError
from .database import Database
from .grants import Grant

_GRANT = "SELECT id, terms, left FROM grants"
_IS_LEFT = "(left IS NULL OR left > 0)"
_HOLDS = f"given <= ? AND until > ? AND {_IS_LEFT}"
MOST_ALIKE = 100
"""The most grants that one call is compared with: the latest of those that differ in a directory or first words alone."""


class GrantStore(Database):
    """The grants of this user."""

    name = "grants.db"
    version_of_schema = 4

    def give(self, grant: Grant, key: bytes, start: str) -> None:
        """Keep a grant under its key. The grants that have ended are forgotten."""
        columns = (grant.id, key, grant.given, grant.until, grant.left, json.dumps(asdict(grant)))
        with self._writing():
            self._db.execute("DELETE FROM grants WHERE until < ?", (time.time(),))
            self._db.execute("DELETE FROM forms WHERE NOT EXISTS (SELECT 1 FROM grants)")
            self._db.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?)", columns)
            self._db.execute("INSERT OR IGNORE INTO forms VALUES (?, ?)", (start, json.dumps(sorted(grant.like))))

    def forms(self, starts: Sequence[str]) -> list[tuple[str, list[str]]]:
        """For each start of a key, the names of the arguments that may differ: one list for each form of its grants."""
        asked = f"SELECT start, names FROM forms WHERE start IN ({', '.join('?' * len(starts))})"
        return [(start, json.loads(names)) for start, names in self._rows(asked, *starts)]

    def find(self, key: bytes) -> list[Grant]:
        """The grants with this key, the latest first."""
        asked = f"{_GRANT} WHERE key = ? AND {_IS_LEFT} ORDER BY given DESC LIMIT {MOST_ALIKE}"
        return [_grant(*row) for row in self._rows(asked, key)]

    def use(self, counted: Sequence[str]) -> bool:
        """Use each of these counted grants once. Returns False, and uses none, if one of them is used up or over."""
        now, ids = time.time(), ", ".join("?" * len(counted))
        these = f"id IN ({ids}) AND {_HOLDS}"
        used = f"UPDATE grants SET left = left - 1 WHERE {these} AND (SELECT count(*) FROM grants WHERE {these}) = ?"
        return self._change(used, *(*counted, now, now) * 2, len(counted)) == len(counted)

    def all(self) -> list[Grant]:
        """The grants that hold, the last one first."""
        now = time.time()
        return [_grant(*row) for row in self._rows(f"{_GRANT} WHERE {_HOLDS} ORDER BY given DESC", now, now)]

    def revoke(self, ids: Iterable[str]) -> int:
        """End these grants now. Returns how many held."""
        return sum(self._change("DELETE FROM grants WHERE id = ?", one) for one in ids)


def _grant(grant_id: str, terms: str, left: int | None) -> Grant:
    try:
        return Grant(**json.loads(terms) | {"left": left})
    except (ValueError, TypeError):
        raise PicohookError(f"the grant {grant_id} is damaged: picohook grants revoke {grant_id}") from None
