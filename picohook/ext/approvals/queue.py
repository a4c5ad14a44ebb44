"""The queue of this user: the calls that wait for a person, in one SQLite file that several programs use at once.

A call's row is written once. A person's answer is added to it once, and the host that asked uses the answer once. Each of these
is one transaction, so a program that is killed leaves all of it or nothing. A host's calls leave the queue with the host.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from .database import Database, DatabaseError
from .presence import is_alive, remove_dead

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    State = Literal["waiting", "answered", "used", "over", "gone"]

KEPT = 3600.0
"""Seconds for which the end of a call is remembered, without the call."""
INLINE = 64 * 1024
"""The most bytes of a call that a list has."""
_SCHEMA = """
CREATE TABLE calls (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, host TEXT NOT NULL, state TEXT NOT NULL, asked_at REAL NOT NULL,
  until REAL NOT NULL, about TEXT NOT NULL, yes INTEGER, reason TEXT NOT NULL DEFAULT '', by TEXT NOT NULL DEFAULT '',
  given TEXT, head BLOB NOT NULL, call BLOB NOT NULL
);
CREATE INDEX in_order ON calls (state, number);
CREATE INDEX of_host ON calls (state, host);
CREATE INDEX by_end ON calls (state, until);
CREATE TABLE pages (host TEXT PRIMARY KEY, url TEXT NOT NULL);
CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL);
INSERT INTO keys VALUES ('links', randomblob(32))
"""
_COLUMNS = "id, state, asked_at, until, about, yes, reason, by, given, length(call)"
_SHORT = f"{_COLUMNS}, CASE WHEN length(call) <= {INLINE} THEN call ELSE head END"
_EMPTY = "call = x'', head = x''"
_WAITING = "state = 'waiting' AND until > ?"
_PENDING = "state IN ('waiting', 'answered')"
_ENDED = "state IN ('used', 'over', 'gone') AND until < ?"


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer."""

    yes: bool
    reason: str
    by: str
    """The channel through which it was given, and the person as far as the channel knows."""
    grant: Mapping[str, Any] | None = None
    """The later calls that a yes is for, too, as on the wire."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call in the queue."""

    call: bytes
    """The call as approvers are asked about it, in JSON; its beginning if `size` is larger."""
    until: float
    """The time at which its host stops waiting, in seconds since 1970."""
    about: dict[str, Any] = field(default_factory=dict)
    """The hook that asks, and the program and directory of its host."""
    id: str = field(default_factory=lambda: secrets.token_hex(5))
    """Short, because people type it."""
    asked_at: float = field(default_factory=time.time)
    size: int = 0
    """The bytes of the whole call."""
    state: State = "waiting"
    answer: Answer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer."""
        return self.state == "waiting" and self.until > time.time()

    @property
    def end(self) -> str:
        """Why it waits no more, in one sentence."""
        if self.answer is not None:
            return f"{self.id} was answered already: {'yes' if self.answer.yes else 'no'}, by {self.answer.by}"
        if self.state == "gone":
            return f"{self.id} waits no more: its caller has gone"
        return f"{self.id} was not answered in time, and was denied"


class Queue(Database):
    """The queue. One thread at a time may use it. Every method raises `PicohookError` if the file cannot be used."""

    name = "queue.db"
    schema = _SCHEMA
    version_of_schema = 1

    # For hosts.

    def put(self, host: str, waiting: Waiting) -> None:
        """Add a call. It waits until the host with this presence uses an answer, or withdraws it."""
        head = waiting.call[:INLINE] if len(waiting.call) > INLINE else b""
        row = (waiting.id, host, waiting.asked_at, waiting.until, json.dumps(waiting.about), head, waiting.call)
        columns = "id, host, asked_at, until, about, head, call, state"
        with self._writing():
            self._db.execute(f"INSERT INTO calls ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting')", row)

    def answered(self, host: str) -> list[str]:
        """The host's calls with an answer that was not used."""
        with self._explained():
            rows = self._db.execute("SELECT id FROM calls WHERE state = 'answered' AND host = ?", (host,))
            return [one for (one,) in rows]

    def use(self, waiting: Waiting) -> Answer | None:
        """Use the answer for this call, once; None if there is none for exactly this call."""
        asked = "SELECT yes, reason, by, given FROM calls WHERE id = ? AND state = 'answered' AND call = ?"
        with self._writing():
            row = self._db.execute(asked, (waiting.id, waiting.call)).fetchone()
            if row is not None:
                self._db.execute(f"UPDATE calls SET state = 'used', {_EMPTY} WHERE id = ?", (waiting.id,))
        return None if row is None else _answer(*row)

    def withdraw(self, call: str, state: State) -> None:
        """End the waiting of a call whose answer is not used."""
        with self._writing():
            self._db.execute(f"UPDATE calls SET state = ?, {_EMPTY} WHERE id = ? AND {_PENDING}", (state, call))

    def version(self) -> tuple[int, int]:
        """Differs after each change of the queue by any program. Raises `PicohookError` if the file was removed."""
        with self._explained():
            if os.stat(self.path).st_ino != self._inode:
                raise DatabaseError(f"{self.path}: was replaced")
            return self._one("PRAGMA data_version"), self._db.total_changes

    # For people.

    def count(self) -> int:
        """The number of calls that wait for an answer."""
        with self._explained():
            return int(self._one(f"SELECT count(*) FROM calls WHERE {_WAITING}", time.time()))

    def waiting(self, most: int = -1) -> list[Waiting]:
        """The calls that wait for an answer, the oldest first. A large one has only the beginning of its call."""
        with self._explained():
            asked = f"SELECT {_SHORT} FROM calls WHERE {_WAITING} ORDER BY number LIMIT ?"
            return [_waiting(row) for row in self._db.execute(asked, (time.time(), most))]

    def find(self, call: str) -> Waiting:
        """One call with its state, whole. Raises `PicohookError` if the queue does not know it."""
        with self._explained():
            row = self._db.execute(f"SELECT {_COLUMNS}, call FROM calls WHERE id = ?", (call,)).fetchone()
        if row is None:
            raise PicohookError(f"no call {call} is in the queue: see picohook approvals")
        return _waiting(row)

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a call. The first answer counts. Raises `PicohookError` if the call does not wait for one."""
        self.remove_dead()
        with self._writing():
            found = self.find(call)
            if found.is_waiting:
                grant = None if answer.grant is None else json.dumps(answer.grant)
                values = (int(answer.yes), answer.reason, answer.by, grant, call)
                changed = "state = 'answered', yes = ?, reason = ?, by = ?, given = ?"
                self._db.execute(f"UPDATE calls SET {changed} WHERE id = ?", values)
        if not found.is_waiting:
            raise PicohookError(found.end)

    def remove_dead(self) -> None:
        """Let the calls of hosts that have ended leave the queue, and forget the calls that ended long ago."""
        pending = "SELECT DISTINCT host FROM calls WHERE state ="
        hosts = f"{pending} 'waiting' UNION {pending} 'answered' UNION SELECT host FROM pages"
        old = time.time() - KEPT
        with self._explained():
            found = self._db.execute(hosts).fetchall()
            dead = [host for (host,) in found if not is_alive(self.directory, host)]
            if not dead and not self._one(f"SELECT 1 FROM calls WHERE {_ENDED} LIMIT 1", old):
                return
            with self._writing():
                gone = f"UPDATE calls SET state = 'gone', {_EMPTY} WHERE host = ? AND {_PENDING}"
                for host in dead:
                    self._db.execute(gone, (host,))
                    self._db.execute("DELETE FROM pages WHERE host = ?", (host,))
                self._db.execute(f"DELETE FROM calls WHERE {_ENDED}", (old,))
            remove_dead(self.directory)

    # For pages.

    def serve(self, host: str, url: str) -> None:
        """Note that the program with this presence shows the queue as a page at this address."""
        with self._writing():
            self._db.execute("INSERT INTO pages VALUES (?, ?)", (host, url))

    def link(self, call: str) -> str:
        """The address at which this call alone is shown and answered, on the newest page; empty without a page."""
        with self._explained():
            pages = self._db.execute("SELECT host, url FROM pages ORDER BY rowid DESC").fetchall()
            url = next((url for host, url in pages if is_alive(self.directory, host)), "")
            return f"{url}call/{call}?key={self.signature(call)}" if url else ""

    def signature(self, call: str) -> str:
        """The part of such an address that cannot be guessed. It is good for this call alone."""
        with self._explained():
            key = bytes(self._one("SELECT value FROM keys WHERE name = 'links'"))
        return hmac.new(key, call.encode(), hashlib.sha256).hexdigest()


def _waiting(row: tuple[Any, ...]) -> Waiting:
    call, state, asked_at, until, about, yes, reason, by, given, size, shown = row
    answer = None if yes is None else _answer(yes, reason, by, given)
    return Waiting(bytes(shown), until, json.loads(about), call, asked_at, size, state, answer)


def _answer(yes: int, reason: str, by: str, given: str | None) -> Answer:
    return Answer(yes == 1, reason, by, None if given is None else json.loads(given))
