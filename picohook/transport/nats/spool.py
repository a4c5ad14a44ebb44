"""A spool on disk: events wait there until a server has acknowledged them.

A directory holds the spools of all hosts that name it. Each host writes files of its own, `TIME-RUN.events`. Beside each,
`TIME-RUN.acked` says how many of its bytes are acknowledged. A line of a file is one event: a checksum, its head and its body.
A file is never written again after its host has ended, so an incomplete last line is simply not read. The next host takes over
the files of hosts that have ended, and sends what is left in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import threading
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import PicohookError
from ...wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOST = 64 << 20
"""Bytes of a host's files, by default."""
LARGEST_FILE = 4 << 20
"""Bytes after which a new file begins. A file is removed when all of it is acknowledged."""
MOST_IN_MEMORY = 4 << 20
"""Bytes that may wait for the disk."""
GATHER, RETRY = 0.01, 1.0
"""Seconds in which events are gathered before they are written, and seconds until a failed write is tried again."""
CLOSE_TIMEOUT = 5.0
"""Seconds in which the events that wait at the end have to be written."""

EVENTS, ACKED, LOCK = ".events", ".acked", ".lock"
_encode = json.JSONEncoder(separators=(",", ":")).encode
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC

Sync = Literal["system", "disk"]


class Stored(NamedTuple):
    """An event in the spool."""

    id: str
    """Unique among all events of all hosts, and the same whenever the event is sent."""
    head: dict[str, Any]
    body: bytes
    file: _File
    end: int
    """Where its line ends in the file."""


class Drops(NamedTuple):
    """Events that were dropped."""

    events: int
    why: str

    def __bool__(self) -> bool:
        return self.events > 0


class _File:
    """One file, as far as it may be read."""

    def __init__(self, path: str, size: int = 0, acked: int = 0) -> None:
        self.path = path
        self.size = self.written = size
        self.acked = acked
        self.done = False
        """Whether nothing more is written to it."""
        self.run = os.path.basename(path).removesuffix(EVENTS)

    def note_acked(self, end: int) -> None:
        """Remember how much is acknowledged, or remove the file if all is.

        If the disk is full, a next host may send some events again.
        """
        self.acked = max(self.acked, end)
        beside = self.path.removesuffix(EVENTS) + ACKED
        if self.done and self.acked >= self.size:
            for path in (self.path, beside):
                with contextlib.suppress(OSError):
                    os.unlink(path)
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, b"%020d" % self.acked, 0)
            finally:
                os.close(descriptor)


class Spool:
    """The spool of one host. `put` never waits: a thread writes.

    An event is *kept* when it is in the file. With `sync="system"` the file may still be in the system's memory: a kept event
    survives the end of the process, however it ends, and not a loss of power. With `sync="disk"` it survives that too. Events
    that are not kept yet, which are those of the last hundredths of a second, are lost if the process is killed.

    If the files have `most` bytes, or the disk fails for so long that too much waits in memory, new events are dropped and
    counted. Raises `PicohookError` if the directory cannot be used.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        most: int = MOST,
        sync: Sync = "system",
        on_kept: Callable[[], None] | None = None,
    ) -> None:
        self.directory = os.path.abspath(directory)
        self.most = most
        self.on_kept = on_kept
        """Called in the spool's thread whenever events were written."""
        self.put_count = self.kept = self.dropped = self.damaged = 0
        """The numbers of events that were accepted, are in the file, were dropped, and could not be read back."""
        self.failure = ""
        """Why nothing can be written now; empty if events can be written."""
        self._sync = sync
        self._largest = max(min(LARGEST_FILE, most // 4), 1)
        self._lines: deque[bytes] = deque()
        self._size_of_lines = 0
        self.drops = Drops(0, "")
        """Those of the dropped events that `take_drops` has not returned yet."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._some = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self._descriptor = -1
        self._locks: dict[str, int] = {}
        self._files: list[_File] = []
        self.size = 0
        """Bytes of all files."""
        self._reading: tuple[int, int] = (0, 0)
        """The index of the file that is read, and how far it was read."""
        try:
            self._open()
        except OSError as error:
            self._release()
            raise PicohookError(f"the spool {escape(self.directory)} cannot be used: {error.strerror}") from None
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(target=self._write_until_closed, name="picohook spool", daemon=True)
        self._thread.start()

    # Writing.

    def put(self, head: Mapping[str, Any], body: bytes) -> bool:
        """Keep an event soon, without waiting. Returns False if it was dropped. `body` is one line of JSON.

        Any thread may call it. Raises `TypeError` or `ValueError` for a head that has no JSON form.
        """
        return self._put(b"%b\t%b" % (_encode(head).encode(), body))

    def _put(self, text: bytes) -> bool:
        line = b"%08x %b\n" % (zlib.crc32(text), text)
        with self._lock:
            if self._closing:
                return self._drop("the host has ended")
            if len(line) > MOST_IN_MEMORY:
                return self._drop(f"one has {len(line)} bytes, and {MOST_IN_MEMORY} are allowed")
            if self._size_of_lines + len(line) > MOST_IN_MEMORY:
                return self._drop(self.failure or "the disk is too slow")
            if self.size + self._size_of_lines + len(line) > self.most:
                return self._drop("the spool is full")
            self._lines.append(line)
            self._size_of_lines += len(line)
            self.put_count += 1
        self._some.set()
        return True

    def _drop(self, why: str, count: int = 1) -> bool:
        self.dropped += count
        self.drops = Drops(self.drops.events + count, why)
        return False

    def drop(self, why: str) -> None:
        """Count an event that was read, and can never be sent. `acknowledge` removes it."""
        with self._lock:
            self._drop(why)

    def take_drops(self) -> Drops:
        """The events that were dropped since the last call, and why."""
        with self._lock:
            drops, self.drops = self.drops, Drops(0, "")
        return drops

    def wait_kept(self, count: int, timeout: float) -> bool:
        """Block until `count` events are kept. Returns whether they are, at the latest after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.kept >= count, timeout)

    def close(self) -> None:
        """Write the waiting events, in at most `CLOSE_TIMEOUT`, and drop the rest. Events can still be read."""
        with self._lock:
            self._closing = True
        self._hurry.set()
        self._some.set()
        self._thread.join(CLOSE_TIMEOUT)
        with self._lock:
            if self._lines:
                self._drop(self.failure or "the last events were not written in time", len(self._lines))
                self._lines.clear()

    def release(self) -> None:
        """Leave the files to the next host. Called after `close`, when nothing more is read."""
        if not self._thread.is_alive():
            self._release()

    def _write_until_closed(self) -> None:
        while True:
            self._some.wait()
            self._hurry.wait(RETRY if self.failure else GATHER)
            self._some.clear()
            with self._lock:
                closing, lines = self._closing, list(self._lines)
            try:
                self._write(lines)
            except OSError as error:
                self.failure = error.strerror or str(error)
                self._some.set()
            else:
                self.failure = ""
            if closing:
                break
        with contextlib.suppress(OSError):
            self._finish_file()

    def _write(self, lines: list[bytes]) -> None:
        """Write these lines, the first ones that wait. Raises `OSError`: then only those before the failure were written."""
        at = 0
        while at < len(lines):
            file = self._file_to_write()
            some = [lines[at]]
            length = len(lines[at])
            while at + len(some) < len(lines) and file.size + length < self._largest:
                some.append(lines[at + len(some)])
                length += len(some[-1])
            failure = self._append(file, b"".join(some))
            at += len(some)
            with self._changed:
                while some and length > file.written - file.size:
                    length -= len(some.pop())
                file.size += length
                self.size += length
                for line in some:
                    self._lines.popleft()
                    self._size_of_lines -= len(line)
                self.kept += len(some)
                self._changed.notify_all()
            if some and self.on_kept is not None:
                with contextlib.suppress(RuntimeError):  # the event loop that it tells is closed
                    self.on_kept()
            if failure is not None:
                self._take_back(file)
                raise failure
            if file.size >= self._largest:
                self._finish_file()

    def _file_to_write(self) -> _File:
        if self._descriptor < 0:
            path = os.path.join(self.directory, f"{time.time_ns():020d}-{self._run}{EVENTS}")
            descriptor = os.open(path, _APPEND | os.O_EXCL, 0o600)
            try:
                if self._sync == "disk":
                    _sync_directory(self.directory)
            except OSError:
                os.close(descriptor)
                os.unlink(path)
                raise
            with self._lock:
                self._files.append(_File(path))
            self._descriptor = descriptor
        return self._files[-1]

    def _append(self, file: _File, data: bytes) -> OSError | None:
        """Write these lines. Returns why not all were written. `file.written` is the end of what is in the file then."""
        left, failure = memoryview(data), None
        file.written = file.size
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            failure = error
        if self._sync == "disk":
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                return error
        file.written += len(data) - len(left)
        return failure

    def _take_back(self, file: _File) -> None:
        """Cut off an incomplete line. What follows goes to another file, so that this one is removed when it was sent."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, file.size)
        self._finish_file()

    def _finish_file(self) -> None:
        """Write no more to the present file."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        file = self._files[-1]
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            with self._lock:
                file.done = True
                finished = file.acked >= file.size
            if finished:
                self._forget(file)

    # Reading.

    def read(self, most: int, most_bytes: int = MOST) -> list[Stored]:
        """The next events, in the order in which they were put. Blocks. Raises `OSError`.

        They are at most `most`, and end with the one that makes them `most_bytes` or more.
        """
        found: list[Stored] = []
        size_of_found = 0
        while len(found) < most and size_of_found < most_bytes:
            with self._lock:
                index, start = self._reading
                if index >= len(self._files):
                    return found
                file = self._files[index]
                size, done = file.size, file.done
            for end, stored in _lines(file, start, size):
                size_of_found += end - start
                start = end
                if stored is None:
                    self.damaged += 1
                else:
                    found.append(stored)
                if len(found) >= most or size_of_found >= most_bytes:
                    break
            with self._lock:
                self._reading = (index + 1, 0) if done and start >= size else (index, start)
            if not done and start >= size:
                return found
        return found

    def rewind(self) -> None:
        """Read again from the first event that is not acknowledged."""
        with self._lock:
            index = next((at for at, file in enumerate(self._files) if file.acked < file.size), len(self._files))
            if index == len(self._files) and self._files and not self._files[-1].done:
                index -= 1
            self._reading = (index, self._files[index].acked if index < len(self._files) else 0)

    def acknowledge(self, stored: Stored) -> None:
        """Note that this event and all before it need not be sent again. Blocks."""
        with self._lock:
            if stored.file not in self._files:
                return
            before = self._files[: self._files.index(stored.file)]
        for file in before:
            self._forget(file)
        with self._lock:
            stored.file.acked = max(stored.file.acked, stored.end)
            finished = stored.file.done and stored.file.acked >= stored.file.size
        if finished:
            self._forget(stored.file)
        else:
            stored.file.note_acked(stored.end)

    def _forget(self, file: _File) -> None:
        with self._lock:
            if file not in self._files:
                return
            at = self._files.index(file)
            self._files.remove(file)
            self.size -= file.size
            file.acked = file.size
            index, start = self._reading
            if index > at:
                self._reading = (index - 1, start)
            elif index == at:
                self._reading = (index, 0)
        file.note_acked(file.size)

    # The directory.

    def _open(self) -> None:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        status = os.stat(self.directory)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PicohookError(
                f"the spool {escape(self.directory)} can be written by other users (chmod 700, or name another directory)"
            )
        while not self._take(run := secrets.token_hex(8)):
            pass
        self._run = run
        names = sorted(name for name in os.listdir(self.directory) if name.endswith(EVENTS))
        for name in names:
            run = name.removesuffix(EVENTS).rpartition("-")[2]
            if run in self._locks or self._take(run):
                file = _found(os.path.join(self.directory, name))
                if file is not None:
                    self._files.append(file)
                    self.size += file.size
        ended = {file.run.rpartition("-")[2] for file in self._files}
        for name in os.listdir(self.directory):  # hosts that left nothing to send
            run = name.removesuffix(LOCK)
            if (
                name.endswith(LOCK)
                and run not in ended
                and run != self._run
                and (run in self._locks or self._take(run))
            ):
                self._drop_lock(run)
        self.rewind()

    def _take(self, run: str) -> bool:
        """Lock the files of a run. Returns False if its host still runs, or another host has taken them over."""
        path = os.path.join(self.directory, run + LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.path.samestat(os.fstat(descriptor), os.stat(path))
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if ours:
            self._locks[run] = descriptor
        else:
            os.close(descriptor)
        return ours

    def _drop_lock(self, run: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.directory, run + LOCK))
        os.close(self._locks.pop(run))

    def _release(self) -> None:
        left = {file.run.rpartition("-")[2] for file in self._files}
        for run in list(self._locks):
            if run in left:
                os.close(self._locks.pop(run))
            else:
                self._drop_lock(run)


def _found(path: str) -> _File | None:
    """A file of a host that has ended, as far as its lines are whole; None if there is nothing in it to send."""
    with open(path, "rb") as stream:
        data = stream.read()
    size = data.rfind(b"\n") + 1
    try:
        with open(path.removesuffix(EVENTS) + ACKED, "rb") as stream:
            acked = int(stream.read(20))
    except (FileNotFoundError, ValueError):
        acked = 0
    file = _File(path, size, min(acked, size))
    file.done = True
    if file.acked >= file.size:
        file.note_acked(file.size)
        return None
    return file


def _lines(file: _File, start: int, size: int) -> Iterator[tuple[int, Stored | None]]:
    """The events of a file from `start` on, each with where its line ends; None for a line that is damaged."""
    with open(file.path, "rb") as stream:
        stream.seek(start)
        while start < size and (line := stream.readline(size - start)):
            start += len(line)
            yield start, _parsed(line, file, start)


def _parsed(line: bytes, file: _File, end: int) -> Stored | None:
    check, _, text = line.rstrip(b"\n").partition(b" ")
    try:
        if int(check, 16) != zlib.crc32(text):
            return None
        head, _, body = text.partition(b"\t")
        return Stored(f"{file.run}-{end}", json.loads(head), body, file, end)
    except ValueError:
        return None


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
