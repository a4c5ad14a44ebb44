"""The grants of this user, in one SQLite file that several programs use at once."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from .database import Database, DatabaseError
from .grants import Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SCHEMA = """
CREATE TABLE grants (
  id TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  until REAL NOT NULL,
  left INTEGER,
  revoked INTEGER NOT NULL DEFAULT 0,
  terms TEXT NOT NULL
);
CREATE UNIQUE INDEX in_order ON grants (number);
CREATE INDEX by_end ON grants (until);
CREATE TABLE changes (last INTEGER NOT NULL);
INSERT INTO changes VALUES (0);
"""
_TERMS = ("hook", "mark", "scope", "place", "tool", "arguments", "like", "world", "given", "by")


def new_id() -> str:
    """A new id for a grant: short, because people type it."""
    return secrets.token_hex(4)


class GrantStore(Database):
    """The grants of this user."""

    name = "grants.db"
    schema = _SCHEMA
    version_of_schema = 1

    def __init__(self, directory: str | None = None) -> None:
        super().__init__(directory)
        self._watching = self._connect(0.0)

    def give(self, grant: Grant) -> None:
        """Keep a grant. The grants that have ended are forgotten."""
        terms = json.dumps({name: getattr(grant, name) for name in _TERMS})
        with self._writing():
            self._db.execute("DELETE FROM grants WHERE until < ?", (time.time() - 3600.0,))
            self._db.execute(
                "INSERT INTO grants (id, number, until, left, terms) VALUES (?, ?, ?, ?, ?)",
                (grant.id, self._next(), grant.until, grant.left, terms),
            )

    def use(self, counted: Sequence[str]) -> bool:
        """Use each of these counted grants once. Returns False, and uses none, if one of them is used up, over or revoked."""
        with self._writing():
            for one in counted:
                query = "SELECT 1 FROM grants WHERE id = ? AND left > 0 AND NOT revoked AND until > ?"
                if not self._one(query, one, time.time()):
                    return False
            for one in counted:
                self._db.execute("UPDATE grants SET left = left - 1, number = ? WHERE id = ?", (self._next(), one))
        return True

    def since(self, number: int) -> list[tuple[Grant, bool]]:
        """The grants that have changed after this place in the order, each with whether it still holds."""
        with self._explained():
            rows = self._db.execute(
                "SELECT id, number, until, left, revoked, terms FROM grants WHERE number > ? ORDER BY number", (number,)
            ).fetchall()
        return [(_grant(row), not row[4] and row[3] != 0) for row in rows]

    def all(self) -> list[Grant]:
        """The grants that hold, the last one first."""
        now = time.time()
        return [grant for grant, holds in reversed(self.since(0)) if holds and grant.until > now]

    def revoke(self, ids: Iterable[str]) -> int:
        """End these grants now. Returns how many held."""
        with self._writing():
            return sum(
                self._db.execute(
                    "UPDATE grants SET revoked = 1, number = ? WHERE id = ? AND NOT revoked", (self._next(), one)
                ).rowcount
                for one in ids
            )

    def _next(self) -> int:
        """The number of the next change."""
        self._db.execute("UPDATE changes SET last = last + 1")
        return int(self._one("SELECT last FROM changes"))

    def changes(self) -> int:
        """A number that differs after each change of the file. Any thread may call it: it does not wait for the others.

        Raises `PicohookError` if the file was removed: nobody could see or revoke its grants.
        """
        with self._explained():
            if os.stat(self.path).st_ino != self._inode:
                raise DatabaseError(f"{self.path}: was replaced: start the host again")
        try:
            (found,) = self._watching.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return -1  # it is locked: look again
        return int(found)

    def close(self) -> None:
        """Close the file."""
        self._watching.close()
        super().close()


def _grant(row: tuple[Any, ...]) -> Grant:
    try:
        return Grant(row[0], until=row[2], left=row[3], number=row[1], **json.loads(row[5]))
    except (ValueError, TypeError):
        raise PicohookError(f"the grant {row[0]} is damaged: picohook grants revoke {row[0]}") from None
