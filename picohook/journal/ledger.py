"""The file of an audit log: each record is a line of JSON that holds the hash of the record before it.

A record has `number`, `time`, `method`, its contents, `previous` and `hash`: the HMAC-SHA256 of all the rest as sorted, compact
JSON. Without a key, a program that can write the file can compute the hashes anew from any record on. With a key it cannot.
"""

import errno
import fcntl
import hmac
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ..errors import PicohookError
from ..wire.regular_files import open_regular
from ..wire.text import escape
from ..wire.written_files import open_to_write

FORMAT = 1
"""The version of the format. Each `host.start` names it; records before version 1 was named are of version 1."""
NOTHING = "0" * 64
"""The hash before the first record."""
START, STOP, CUT, LOST = "host.start", "host.stop", "audit.cut", "audit.lost"

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_BEGINNING = b'{"number": '
_BLOCK = 1 << 16
LONGEST_LINE = 256 << 20
"""Bytes of the longest line that is read: a record has a few payloads, each at most as long as a line of the protocol."""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT


def canonical(value: Any) -> bytes:
    """A JSON value as the bytes that are hashed. Raises `TypeError` or `ValueError` for another value."""
    return _canonical(value).encode()


def keyed(key: bytes, value: Any) -> str:
    """The hash of a JSON value."""
    return hmac.digest(key, canonical(value), "sha256").hex()


def _read(line: bytes, key: bytes) -> dict[str, Any] | str:
    """Returns the record of a line, or a text about its mistake."""
    try:
        record = json.loads(line)
        exact = json.dumps(record).encode() == line  # otherwise another reader may read another record
        digest = record.pop("hash")
        holds = exact and hmac.compare_digest(digest.encode(), keyed(key, record).encode())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "cannot be read"
    if not holds:
        return "was changed"
    if record.get("method") == START and record.get("format", FORMAT) != FORMAT:
        return f"is of format {json.dumps(record['format'])}, and this picohook knows format {FORMAT}: use a newer picohook"
    return {**record, "hash": digest}


class Ledger:
    """The file, opened for appending, and locked for this process. Raises `PicohookError` if that fails.

    The chain continues in a new file when this one is moved away or emptied. It also does when the file would have more than
    `most` bytes: then the file is moved to the first free of the names PATH.1, PATH.2 and so on. `below` is that of
    `written_files.place`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: bytes = b"",
        *,
        most: int | None = None,
        below: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.count, self.head = 0, NOTHING
        self.closed = False
        self._key = key
        self._most = most
        self._below = below
        self._torn = False
        try:
            self._file = open_to_write(path, _FLAGS, below=below)
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
        """Find the last record, and cut off an incomplete one after it. Returns how many bytes that were."""
        status = os.fstat(self._file)
        if not stat.S_ISREG(status.st_mode):
            raise self._error("is not a regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._error("is in use by another host: give each host a file of its own") from None
        line, rest = self._tail(self._file)
        where = ""
        if line is None and self._most is not None and (earlier := _newest(self.path)) is not None:
            where = f" in {escape(os.path.basename(earlier))}"  # a host was killed after it had moved the file away
            with open(open_regular(earlier)[0], "rb") as file:
                line, _ = self._tail(file.fileno())
        if line is not None:
            record = _read(line, self._key)
            if not isinstance(record, str) and not isinstance(record.get("number"), int):
                record = "has no number"
            if isinstance(record, str):
                hint = "see `picohook audit verify`, give the key that it has, or another file"
                raise self._error(f"cannot be continued: its last record{where} {record} ({hint})")
            self.count, self.head = record["number"], record["hash"]
        if rest and not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
            raise self._error("is not an audit log: it does not end with a record")
        self._end = os.fstat(self._file).st_size - len(rest)
        if rest:
            os.ftruncate(self._file, self._end)
        return len(rest)

    def _tail(self, file: int) -> tuple[bytes | None, bytes]:
        """The last whole line, if there is one, and the bytes after it. Reads no more than that needs."""
        size, want = os.fstat(file).st_size, _BLOCK
        while True:
            if want > LONGEST_LINE:
                raise self._error("is not an audit log: it does not end with a record")
            data = os.pread(file, min(want, size), max(size - want, 0))
            whole, ended, rest = data.rpartition(b"\n")
            _, newline, line = whole.rpartition(b"\n")
            if newline or want >= size:
                return (line if ended else None), rest
            want *= 4

    def add(self, method: str, about: Mapping[str, Any]) -> None:
        """Write a record. Raises `OSError`: then nothing was written, and the next record gets its number."""
        if self.closed:
            raise OSError(errno.EBADF, "the log is closed")  # another file may have its descriptor's number by now
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
        """Continue in a new file if this one was moved away or is full. Raises `OSError`."""
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
        new = self._opened_empty()
        os.close(self._file)
        self._file, self._end = new, 0

    def _opened_empty(self) -> int:
        """The descriptor of a new file, locked. Raises `OSError`, also if the file is not empty."""
        file = open_to_write(self.path, _FLAGS, below=self._below)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            empty = not status.st_size and stat.S_ISREG(status.st_mode)
        except BaseException:
            os.close(file)
            raise
        if not empty:
            os.close(file)
            raise OSError(errno.EEXIST, "another file is in its place")
        return file

    def _take_back(self) -> None:
        """Cut off a record that could not be written whole."""
        if self._torn:
            os.ftruncate(self._file, min(self._end, os.fstat(self._file).st_size))
            self._torn = False

    def close(self) -> None:
        """Wait until all is on the disk, and close the file."""
        self.closed = True
        try:
            self._take_back()
            os.fsync(self._file)
        finally:
            os.close(self._file)


def _free_name(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"


def _newest(path: str) -> str | None:
    """The file that was last written of those that were moved away because they were full."""
    directory, name = os.path.split(os.path.abspath(path))
    full = re.compile(re.escape(name) + r"\.[0-9]+")
    moved = [other for other in os.scandir(directory) if full.fullmatch(other.name) and _is_part(other, name)]
    return max(moved, key=lambda other: other.stat().st_mtime_ns).path if moved else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a chain."""

    records: int
    """The number of records that are valid, from the first one on."""
    head: str
    """The hash of the last valid record."""
    problem: str | None = None
    """The mistake in the record after them."""
    notes: tuple[str, ...] = ()
    """Remarks that are no fault of the chain."""

    @property
    def ok(self) -> bool:
        """Whether the whole chain is valid."""
        return self.problem is None


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files of the chain that ends in this one, in order: the others lie beside it, and their names begin with its name."""
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


def lines_of(files: Iterable[str]) -> Iterator[bytes]:
    """The lines of these files. A line longer than a record can be is read in parts. Raises `OSError`."""
    for path in files:
        with open(open_regular(path)[0], "rb") as file:
            yield from iter(partial(file.readline, LONGEST_LINE), b"")


def verify(lines: Iterable[bytes], key: bytes = b"", *, head: str | None = None, after: str | None = None) -> Verdict:
    """Verify every record of a file, or of several files in order.

    `head` is a hash that was kept elsewhere: a record must have it. `after` is the hash of the record before the first one,
    where older files were removed on purpose.
    """
    count, last, problem = 0, NOTHING, None
    notes: list[str] = []
    is_open, known = False, head is None
    for line in lines:
        if after is not None and not count:
            count, last = _number(line) - 1, after
        record = _follows(line, count, last, key)
        if isinstance(record, str):
            problem = record
            break
        count, last = count + 1, record["hash"]
        known = known or last == head
        method = record.get("method")
        if remark := _remark(method, record, is_open=is_open):
            notes.append(f"record {count}: {remark}")
        is_open = method == START if method in {START, STOP} else is_open
    if problem is None and is_open:
        notes.append("the last run has no end: its host still runs, or was killed, or its end was cut off")
    if problem is None and not known:
        problem = "no record has the hash that was kept: the end was cut off, or the log was written anew"
    if problem is None and not count:
        notes.append("it is empty: nothing was written to it yet, or all records were removed")
    return Verdict(count, last, problem, tuple(notes))


def _remark(method: Any, record: Mapping[str, Any], *, is_open: bool) -> str:
    """What a record says of the log itself. A run begins while one `is_open`."""
    if method == START and is_open:
        return "the run before has no end: its host was killed, or its end was cut off"
    if method == CUT:
        return f"{record.get('bytes')} bytes of an incomplete record were cut off here"
    return f"{record.get('records')} records could not be written here" if method == LOST else ""


def _is_part(other: os.DirEntry[str], name: str) -> bool:
    return other.name.startswith((f"{name}.", f"{name}-")) and other.is_file()


def _first_number(path: str) -> int:
    """The number of a file's first record; 0 without one."""
    try:
        return _number(next(lines_of([path]), b""))
    except OSError:
        return 0


def _number(line: bytes) -> int:
    """The number of a line's record; 0 if it is not a record."""
    try:
        number = json.loads(line)["number"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return number if isinstance(number, int) else 0


def _follows(line: bytes, count: int, head: str, key: bytes) -> dict[str, Any] | str:
    """Returns the record of a line if it is the next one, or else a text about the mistake."""
    name = f"record {count + 1}"
    if not line.endswith(b"\n"):
        return f"{name} is incomplete: its writer was killed, or the end was cut off"
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
