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
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PicohookError
from ..wire.regular_files import open_regular
from ..wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NOTHING = "0" * 64
"""What the first record has for the hash of the one before it."""
START, STOP, CUT, LOST = "host.start", "host.stop", "audit.cut", "audit.lost"

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_BEGINNING = b'{"number": '
_BLOCK = 1 << 16
LONGEST = 256 << 20
"""Bytes of a line that is looked at: a record with payloads has a few, each of at most a line of the protocol."""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


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
    """Such a file, open for this process alone, to add to. Raises `PicohookError` where that cannot be.

    The chain goes on in a new file when this one is moved away or emptied, and when it would have more than `most` bytes:
    then it is moved to the first free of the names PATH.1, PATH.2 and so on.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes = b"", *, most: int | None = None) -> None:
        self.path = os.fspath(path)
        self.count, self.head = 0, NOTHING
        self.closed = False
        self._key = key
        self._most = most
        self._torn = False
        try:
            self._file = os.open(path, _FLAGS, 0o600)
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
        self._turn_over(len(data))
        self._torn = True
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._torn = False
        self._end += len(data)
        self.count, self.head = self.count + 1, head

    def _turn_over(self, size: int) -> None:
        """Go on in a new file, where this one was moved away or is full. Raises `OSError`."""
        try:
            there: os.stat_result | None = os.stat(self.path)
        except FileNotFoundError:
            there = None
        own = os.fstat(self._file)
        if there is not None and os.path.samestat(there, own):
            self._end = min(self._end, own.st_size)  # it may have been copied and emptied
            if self._most is None or not self._end or self._end + size <= self._most:
                return
            os.rename(self.path, _free_name(self.path))
        new = _opened_empty(self.path)
        os.close(self._file)
        self._file, self._end = new, 0

    def _take_back(self) -> None:
        """Leave nothing of a record that could not be written whole."""
        if self._torn:
            os.ftruncate(self._file, min(self._end, os.fstat(self._file).st_size))
            self._torn = False

    def close(self) -> None:
        """Have all of it on the disk, and let go of the file."""
        self.closed = True
        try:
            self._take_back()
            os.fsync(self._file)
        finally:
            os.close(self._file)


def _opened_empty(path: str) -> int:
    """The descriptor of a new file, locked. Raises `OSError`, also where there is something in it."""
    file = os.open(path, _FLAGS, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(file)
        empty = not status.st_size and stat.S_ISREG(status.st_mode)
    except BaseException:
        os.close(file)
        raise
    if not empty:
        os.close(file)
        raise OSError(errno.EEXIST, "something else is in its place")
    return file


def _free_name(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"


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


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files of the chain that ends in this one, the first one first: those beside it whose names begin with its name."""
    path = os.fspath(path)
    directory, name = os.path.split(os.path.abspath(path))
    files, first = [path], _first_number(path)
    beside = [
        os.path.join(os.path.dirname(path), other.name) for other in os.scandir(directory) if _is_part(other, name)
    ]
    for number, other in sorted(((_first_number(other), other) for other in beside), reverse=True):
        if 0 < number < first:
            files.insert(0, other)
            first = number
    return files


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, none of which is read beyond what a record can be."""
    while line := file.readline(LONGEST):
        yield line


def verify(lines: Iterable[bytes], key: bytes = b"", *, head: str | None = None, after: str | None = None) -> Verdict:
    """Look at every record of a file, or of several one after the other.

    `head` is a hash that was kept elsewhere: its record has to be there still. `after` is the hash of the record before the
    first one, where older files were taken away on purpose.
    """
    count, last, problem = 0, NOTHING, None
    runs = _Runs()
    known = head is None
    for line in lines:
        if after is not None and not count:
            count, last = _number(line) - 1, after
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


def _is_part(other: os.DirEntry[str], name: str) -> bool:
    return other.name.startswith((f"{name}.", f"{name}-")) and other.is_file()


def _first_number(path: str) -> int:
    """Of the first record of a file; 0 where there is none."""
    try:
        with open(open_regular(path)[0], "rb") as file:
            return _number(file.readline(LONGEST))
    except OSError:
        return 0


def _number(line: bytes) -> int:
    """Of a record, if it is one; 0 otherwise."""
    try:
        number = json.loads(line)["number"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return number if isinstance(number, int) else 0


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
