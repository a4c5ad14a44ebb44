"""The queue of this user: the calls that wait for a person, in one SQLite file that several programs use at once.

A call's row is written once. A person's answer is added to it once, and the host that asked uses the answer once. Each of these
is one transaction, so a program that is killed leaves all of it or nothing. A host's calls leave the queue with the host.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from ...errors import PicohookError
from .database import Database
from .grants import require_grant

State = Literal["waiting", "answered", "used", "over", "gone"]


KEPT = 3600.0
"""Seconds for which the end of a call is remembered, without the call."""
INLINE = 64 * 1024
"""The most bytes of a call that a list has."""
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_WHOLE = "SELECT call, until, about, id, asked_at, length(call), state, yes, reason, by, given FROM calls"
_SHORT = _WHOLE.replace("call,", f"substr(call, 1, {INLINE}),", 1)
_END = "UPDATE calls SET state = ?, call = x'' WHERE state IN ('waiting', 'answered')"
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
    def of(cls, row: tuple[Any, ...]) -> Self:
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
        if self.call and len(self.call) >= self.size:
            shown["call"] = json.loads(self.call)
        return shown


class Queue(Database):
    """The queue. Every method raises `PicohookError` if the file cannot be used."""

    name = "queue.db"
    version_of_schema = 2

    def __init__(self, directory: str | None = None, *, present: bool = False) -> None:
        """`present` is for programs whose calls wait in it, or which serve it as a page, until they end.

        Such a program has a locked file. The system releases the lock when the program ends, however it ends.
        """
        super().__init__(directory)
        self.host = secrets.token_hex(8) if present else ""
        """The name of this program in the queue."""
        if present:
            with self._explained():
                self._alive = os.open(self._file_of(self.host), os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600)
                fcntl.flock(self._alive, fcntl.LOCK_EX)
            self._change("INSERT INTO hosts VALUES (?, '')", self.host)

    def close(self) -> None:
        """Close the file. What is this program's own leaves the queue."""
        if self.host:
            fcntl.flock(self._alive, fcntl.LOCK_UN)  # a process that is just being started may have a copy
            os.close(self._alive)
            with contextlib.suppress(PicohookError, OSError):
                os.unlink(self._file_of(self.host))
                self.remove_dead()
        super().close()

    # For hosts.

    def exchange(self, new: Collection[Waiting] = (), left: Mapping[str, State] | None = None) -> list[Waiting]:
        """Add calls, which wait until this program ends, and end the waiting of others: all of it or nothing.

        Returns the calls of this program that were answered. Each is returned once, and none that has left.
        """
        self.version()  # raises if the file was removed
        mine = "state = 'answered' AND host = ?"
        if not new and not left and not self._rows(f"SELECT 1 FROM calls WHERE {mine} LIMIT 1", self.host):
            return []
        rows = [(one.id, self.host, one.asked_at, one.until, json.dumps(one.about), one.call) for one in new]
        columns = "id, host, asked_at, until, about, call, state"
        with self._writing():
            self._db.executemany(f"INSERT INTO calls ({columns}) VALUES (?, ?, ?, ?, ?, ?, 'waiting')", rows)
            self._db.executemany(f"{_END} AND id = ?", [(state, call) for call, state in (left or {}).items()])
            answered = self._rows(f"{_WHOLE} WHERE {mine}", self.host)
            self._db.execute(f"{_END} AND {mine}", ("used", self.host))
        return [Waiting.of(row) for row in answered]

    # For people.

    def count(self) -> int:
        """The number of calls that wait for an answer."""
        [[count]] = self._rows(f"SELECT count(*) FROM calls WHERE {_WAITING}", time.time())
        return count  # type: ignore[no-any-return]

    def waiting(self, most: int = -1) -> list[Waiting]:
        """The calls that wait for an answer, the oldest first. A large one has only the beginning of its call."""
        asked = f"{_SHORT} WHERE {_WAITING} ORDER BY number LIMIT ?"
        return [Waiting.of(row) for row in self._rows(asked, time.time(), most)]

    def find(self, call: str) -> Waiting:
        """One call with its state, whole. Raises `PicohookError` if the queue does not know it."""
        for row in self._rows(f"{_WHOLE} WHERE id = ?", call):
            return Waiting.of(row)
        raise PicohookError(f"no call {call} is in the queue: see picohook approvals")

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a call. The first answer counts.

        Raises `PicohookError` if the call does not wait for one, or if its grant can never hold: the call then still waits.
        """
        self.remove_dead()
        grant = None if answer.grant is None else json.dumps(answer.grant)
        if answer.grant is not None and (found := self.find(call)).is_waiting:
            require_grant(answer.grant, found.call, found.about)
        answered = (
            f"UPDATE calls SET state = 'answered', yes = ?, reason = ?, by = ?, given = ? WHERE id = ? AND {_WAITING}"
        )
        if not self._change(answered, int(answer.yes), answer.reason, answer.by, grant, call, time.time()):
            raise PicohookError(self.find(call).end)

    def remove_dead(self) -> None:
        """Let the calls of hosts that have ended leave the queue, and forget the calls that ended long ago."""
        old = time.time() - KEPT
        with self._explained():
            dead = [host for host in self._rows("SELECT name FROM hosts") if not self._is_alive(*host)]
            if not dead and not self._rows(f"SELECT 1 FROM calls WHERE {_ENDED} LIMIT 1", old):
                return
            with self._writing():
                self._db.executemany(_END.replace("?", "'gone'") + " AND host = ?", dead)
                self._db.executemany("DELETE FROM hosts WHERE name = ?", dead)
                self._db.execute(f"DELETE FROM calls WHERE {_ENDED}", (old,))
            for (host,) in dead:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._file_of(host))

    def _file_of(self, host: str) -> str:
        return os.path.join(self.directory, f"{host}.alive")

    def _is_alive(self, host: str) -> bool:
        """Whether the program with this name still runs."""
        try:
            descriptor = os.open(self._file_of(host), os.O_RDONLY | _SAFE)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    # For pages.

    def serve(self, url: str) -> None:
        """Note that this program shows the queue as a page at this address."""
        self._change("UPDATE hosts SET url = ? WHERE name = ?", url, self.host)

    def link(self, call: str) -> str:
        """The address at which this call alone is shown and answered, on the newest page; empty without a page."""
        with self._explained():
            pages = self._rows("SELECT name, url FROM hosts WHERE url != '' ORDER BY rowid DESC")
            url = next((url for host, url in pages if self._is_alive(host)), "")
        return f"{url}call/{call}?key={self.signature(call)}" if url else ""

    def signature(self, call: str) -> str:
        """The part of such an address that cannot be guessed. It is good for this call alone."""
        [[key]] = self._rows("SELECT value FROM keys WHERE name = 'links'")
        return hmac.new(key, call.encode(), hashlib.sha256).hexdigest()
