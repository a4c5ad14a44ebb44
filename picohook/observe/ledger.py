"""A file of records that shows what was done to it: each is a line of JSON, and holds the hash of the one before it.

A record has `number`, `time`, `method`, what it is about, `previous` and `hash`: the HMAC-SHA256 of all the rest as sorted,
compact JSON. Without a key that is a chain which anybody can make anew from any point on; with one, nobody who lacks it can.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import json
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..text import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

NOTHING = "0" * 64
"""What the first record has for the hash of the one before it."""
START, STOP, CUT, LOST = "host.start", "host.stop", "audit.cut", "audit.lost"

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_BEGINNING = b'{"number": '
_BLOCK = 1 << 16
LONGEST = 256 << 20
"""Bytes of a line that is looked at: a record with payloads has a few, each of at most a line of the protocol."""


def canonical(value: Any) -> bytes:
    """A JSON value as the bytes that are hashed. Raises `TypeError` or `ValueError` for what is none."""
    return _canonical(value).encode()


def keyed(key: bytes, value: Any) -> str:
    """The hash of a JSON value."""
    return hmac.digest(key, canonical(value), "sha256").hex()


def _read(line: bytes, key: bytes) -> dict[str, Any] | str:
    """A record, with its hash; or what is wrong with the line."""
    try:
        record = json.loads(line)
        exact = json.dumps(record).encode() == line  # else another reader may see another record in it
        said = record.pop("hash")
        holds = exact and hmac.compare_digest(said.encode(), keyed(key, record).encode())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "cannot be read"
    return {**record, "hash": said} if holds else "was changed"


class Ledger:
    """Such a file, open for this process alone, to add to. Raises `PicohookError` where that cannot be."""

    def __init__(self, path: str | os.PathLike[str], key: bytes = b"") -> None:
        self.path = os.fspath(path)
        self.count, self.head = 0, NOTHING
        self.closed = False
        self._key = key
        self._torn = False
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise self._error(f"cannot be opened: {error.strerror}") from None
        try:
            cut = self._go_on()
            if cut:
                self.add(CUT, {"bytes": cut})
        except OSError as error:
            os.close(self._file)
            raise self._error(f"cannot be written: {error.strerror}") from None
        except BaseException:
            os.close(self._file)
            raise

    def _error(self, what: str) -> PicohookError:
        return PicohookError(f"the audit log {escape(self.path)} {what}")

    def _go_on(self) -> int:
        """Find the last record. What was written of another one is taken away: how many bytes that were."""
        status = os.fstat(self._file)
        if not stat.S_ISREG(status.st_mode):
            raise self._error("is no regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._error("is written by another host: give each one a file of its own") from None
        line, rest = self._tail(os.fstat(self._file).st_size)
        if line is not None:
            record = _read(line, self._key)
            if not isinstance(record, str) and not isinstance(record.get("number"), int):
                record = "has no number"
            if isinstance(record, str):
                hint = "see `picohook audit verify`, give the key that it has, or another file"
                raise self._error(f"cannot be gone on with: its last record {record} ({hint})")
            self.count, self.head = record["number"], record["hash"]
        if rest and not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
            raise self._error("is something else: it does not end with a record")
        self._end = os.fstat(self._file).st_size - len(rest)
        if rest:
            os.ftruncate(self._file, self._end)
        return len(rest)

    def _tail(self, size: int) -> tuple[bytes | None, bytes]:
        """The last whole line, if there is one, and what comes after it. Reads no more than that takes."""
        want = _BLOCK
        while True:
            if want > LONGEST:
                raise self._error("is something else: it does not end with a record")
            data = _at(self._file, max(size - want, 0), min(want, size))
            whole, ended, rest = data.rpartition(b"\n")
            _, newline, line = whole.rpartition(b"\n")
            if newline or want >= size:
                return (line if ended else None), rest
            want *= 4

    def add(self, method: str, about: Mapping[str, Any]) -> None:
        """Write a record. Raises `OSError`, and then it is none: the next one takes its number and its place."""
        if self.closed:
            raise OSError(errno.EBADF, "the log is closed")  # its descriptor's number may be somebody else's by now
        record = {
            "number": self.count + 1,
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
            "method": method,
            **about,
            "previous": self.head,
        }
        head = keyed(self._key, record)
        data = json.dumps({**record, "hash": head}).encode() + b"\n"
        self._take_back()
        self._torn = True
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._torn = False
        self._end += len(data)
        self.count, self.head = self.count + 1, head

    def _take_back(self) -> None:
        """Leave nothing of a record that could not be written whole."""
        if self._torn:
            os.ftruncate(self._file, self._end)
            self._torn = False

    def close(self) -> None:
        """Have all of it on the disk, and let go of the file."""
        self.closed = True
        try:
            self._take_back()
            os.fsync(self._file)
        finally:
            os.close(self._file)


def _at(file: int, start: int, size: int) -> bytes:
    parts = []
    while size > 0 and (data := os.pread(file, size, start)):
        parts.append(data)
        start, size = start + len(data), size - len(data)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at the whole chain found."""

    records: int
    """Those that hold, from the first one on."""
    head: str
    """The hash of the last of these."""
    problem: str | None = None
    """What is wrong with the one after them."""
    notes: tuple[str, ...] = ()
    """What is no fault of the chain, and worth knowing."""

    @property
    def ok(self) -> bool:
        """Whether all of it holds."""
        return self.problem is None


def verify(file: BinaryIO, key: bytes = b"", *, head: str | None = None) -> Verdict:
    """Look at every record. `head` is a hash that was kept elsewhere: its record has to be there still."""
    count, last, problem = 0, NOTHING, None
    runs = _Runs()
    known = head is None
    while line := file.readline(LONGEST):
        record = _follows(line, count, last, key)
        if isinstance(record, str):
            problem = record
            break
        count, last = count + 1, record["hash"]
        runs.take(record)
        known = known or last == head
    if problem is None and not known:
        problem = "no record has the hash that was kept: the end was cut off, or all of it was made anew"
    notes = [*runs.notes(ended=problem is None)]
    if problem is None and not count:
        notes.append("it is empty: nothing was written to it yet, or all of it was taken away")
    return Verdict(count, last, problem, tuple(notes))


def _follows(line: bytes, count: int, head: str, key: bytes) -> dict[str, Any] | str:
    """The record of a line, if it is the next one; or what is wrong."""
    name = f"record {count + 1}"
    if not line.endswith(b"\n"):
        return f"{name} is cut: its writer ended before it was whole, or the end was cut off"
    record = _read(line[:-1], key)
    if isinstance(record, str):
        hint = " (or it has another key)" if not count and record == "was changed" else ""
        return f"{name} {record}{hint}"
    number = record.get("number")
    if (number, record.get("previous")) == (count + 1, head):
        return record
    if isinstance(number, int) and number > count + 1:
        return f"{name} is missing" if number == count + 2 else f"records {count + 1} to {number - 1} are missing"
    return f"{name} does not follow the one before it"


class _Runs:
    """Where hosts began and ended, and what they noted about the log itself."""

    def __init__(self) -> None:
        self._open = False
        self._found: list[str] = []

    def take(self, record: Mapping[str, Any]) -> None:
        at, method = f"record {record['number']}", record.get("method")
        if method == START:
            if self._open:
                self._found.append(f"{at}: the run before has no end: it was killed, or its end was cut off")
            self._open = True
        elif method == STOP:
            self._open = False
        elif method == CUT:
            self._found.append(f"{at}: {record.get('bytes')} bytes of a record that was never whole were dropped here")
        elif method == LOST:
            self._found.append(f"{at}: {record.get('records')} records could not be written here")

    def notes(self, *, ended: bool) -> Iterator[str]:
        """All of these; `ended`: the log was seen to its end."""
        yield from self._found
        if ended and self._open:
            yield "the last run has no end: it still runs, or was killed, or its end was cut off"
