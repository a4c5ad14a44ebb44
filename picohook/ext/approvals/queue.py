"""The queue of this user: the calls that wait for a person, in one SQLite file that several programs use at once.

A call's row is written once. A person's answer is added to it once, and the host that asked uses the answer once. Each of these
is one transaction, so a program that is killed leaves all of it or nothing. A host's calls leave the queue with the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from .database import Database
from .grants import require_grant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    State = Literal["waiting", "answered", "used", "over", "gone"]

KEPT = 3600.0
"""Seconds for which the end of a call is remembered, without the call."""
INLINE = 64 * 1024
"""The most bytes of a call that a list has."""
SUFFIX = ".alive"
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_WHOLE = "SELECT call, until, about, id, asked_at, length(call), state, yes, reason, by, given FROM calls"
_SHORT = _WHOLE.replace("call,", f"CASE WHEN length(call) <= {INLINE} THEN call ELSE head END,", 1)
_END = "UPDATE calls SET state = ?, call = x'', head = x'' WHERE state IN ('waiting', 'answered')"
_WAITING = "state = 'waiting' AND until > ?"
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
    """A call in the queue: one row."""

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

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Waiting:
        """The call in a row of `_WHOLE`, or of `_SHORT`."""
        call, until, about, name, asked_at, size, state, yes, reason, by, given = row
        answer = None if yes is None else Answer(yes == 1, reason, by, None if given is None else json.loads(given))
        return cls(bytes(call), until, json.loads(about), name, asked_at, size, state, answer)

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

    def wire(self) -> dict[str, Any]:
        """The JSON for programs."""
        shown = {name: getattr(self, name) for name in ("id", "state", "asked_at", "until", "size")} | self.about
        if self.answer is not None:
            shown["answer"] = asdict(self.answer)
        if self.call and len(self.call) == self.size:
            shown["call"] = json.loads(self.call)
        return shown


class Queue(Database):
    """The queue. One thread at a time may use it. Every method raises `PicohookError` if the file cannot be used."""

    name = "queue.db"
    version_of_schema = 1

    def __init__(self, directory: str | None = None, *, present: bool = False) -> None:
        """`present` is for programs whose calls wait in it, or which serve it as a page, until they end."""
        super().__init__(directory)
        with self._explained():
            self._presence = Presence(self.directory) if present else None

    @property
    def host(self) -> str:
        """The name of this program in the queue."""
        assert self._presence is not None
        return self._presence.name

    def close(self) -> None:
        """Close the file. What is this program's own leaves the queue."""
        if self._presence is not None:
            self._presence.close()
            with contextlib.suppress(PicohookError):
                self.remove_dead()
        super().close()

    # For hosts.

    def put(self, waiting: Waiting) -> None:
        """Add a call. It waits until this program uses an answer, withdraws it, or ends."""
        head = waiting.call[:INLINE] if len(waiting.call) > INLINE else b""
        row = (waiting.id, self.host, waiting.asked_at, waiting.until, json.dumps(waiting.about), head, waiting.call)
        columns = "id, host, asked_at, until, about, head, call, state"
        with self._writing():
            self._db.execute(f"INSERT INTO calls ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting')", row)

    def answered(self) -> list[str]:
        """This program's calls with an answer that was not used."""
        with self._explained():
            rows = self._db.execute("SELECT id FROM calls WHERE state = 'answered' AND host = ?", (self.host,))
            return [one for (one,) in rows]

    def use(self, waiting: Waiting) -> Answer | None:
        """Use the answer for this call, once; None if there is none for exactly this call."""
        asked = f"{_WHOLE} WHERE id = ? AND state = 'answered' AND call = ?"
        with self._writing():
            row = self._db.execute(asked, (waiting.id, waiting.call)).fetchone()
            if row is not None:
                self._db.execute(f"{_END} AND id = ?", ("used", waiting.id))
        return None if row is None else Waiting.of(row).answer

    def withdraw(self, call: str, state: State) -> None:
        """End the waiting of a call whose answer is not used."""
        with self._writing():
            self._db.execute(f"{_END} AND id = ?", (state, call))

    def version(self) -> tuple[int, int]:
        """Differs after each change of the queue by any program. Raises `PicohookError` if the file was removed."""
        with self._explained():
            self.require_same_file()
            return self._one("PRAGMA data_version"), self._db.total_changes

    # For people.

    def count(self) -> int:
        """The number of calls that wait for an answer."""
        with self._explained():
            return int(self._one(f"SELECT count(*) FROM calls WHERE {_WAITING}", time.time()))

    def waiting(self, most: int = -1) -> list[Waiting]:
        """The calls that wait for an answer, the oldest first. A large one has only the beginning of its call."""
        with self._explained():
            rows = self._db.execute(f"{_SHORT} WHERE {_WAITING} ORDER BY number LIMIT ?", (time.time(), most))
            return [Waiting.of(row) for row in rows]

    def find(self, call: str) -> Waiting:
        """One call with its state, whole. Raises `PicohookError` if the queue does not know it."""
        with self._explained():
            row = self._db.execute(f"{_WHOLE} WHERE id = ?", (call,)).fetchone()
        if row is None:
            raise PicohookError(f"no call {call} is in the queue: see picohook approvals")
        return Waiting.of(row)

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a call. The first answer counts.

        Raises `PicohookError` if the call does not wait for one, or if its grant can never hold: the call then still waits.
        """
        self.remove_dead()
        grant = None if answer.grant is None else json.dumps(answer.grant)
        if answer.grant is not None and (found := self.find(call)).is_waiting:
            require_grant(answer.grant, found.call, found.about)
        with self._writing():
            found = self.find(call)
            if found.is_waiting:
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
            dead = [(host,) for (host,) in self._db.execute(hosts).fetchall() if not is_alive(self.directory, host)]
            if not dead and not self._one(f"SELECT 1 FROM calls WHERE {_ENDED} LIMIT 1", old):
                return
            with self._writing():
                self._db.executemany(_END.replace("?", "'gone'") + " AND host = ?", dead)
                self._db.executemany("DELETE FROM pages WHERE host = ?", dead)
                self._db.execute(f"DELETE FROM calls WHERE {_ENDED}", (old,))
            remove_dead(self.directory)

    # For pages.

    def serve(self, url: str) -> None:
        """Note that this program shows the queue as a page at this address."""
        with self._writing():
            self._db.execute("INSERT INTO pages VALUES (?, ?)", (self.host, url))

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


class Presence:
    """A locked file that shows that a program lives, until `close`. Raises `OSError`.

    The system releases the lock when the program ends, however it ends.
    """

    def __init__(self, directory: str) -> None:
        self.name = secrets.token_hex(8)
        self._path = os.path.join(directory, self.name + SUFFIX)
        new = os.path.join(directory, self.name)
        self._descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.rename(new, self._path)  # now that it is locked: a program that looks for dead ones would remove it before

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def is_alive(directory: str, name: str) -> bool:
    """Whether the program with this presence still runs. If not, its file is removed."""
    path = os.path.join(directory, name + SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFE)
    except OSError as error:  # too many open files, for example, say nothing about the program
        return not isinstance(error, FileNotFoundError)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(descriptor)


def remove_dead(directory: str) -> None:
    """Remove the files of programs that were killed. Raises `OSError`."""
    for name in os.listdir(directory):
        if name.endswith(SUFFIX):
            is_alive(directory, name.removesuffix(SUFFIX))
