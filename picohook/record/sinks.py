"""Writes the events of consumers: to an audit log, as records, or as lines for another program.

An event may come twice. It is written once, because each has an id.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from typing import TYPE_CHECKING

from ..listeners.ledger import Ledger, files_of, last_lines
from ..protocol.codec import encode

if TYPE_CHECKING:
    from ..observe.log import Log
    from ..transport.nats.consumer import Received

REMEMBERED = 100_000
"""The ids of events that are remembered, to know an event that comes again."""
TAIL = 64 << 20
"""Bytes at the end of an audit log in which ids are looked for at the start."""


class AuditSink:
    """Writes the records of all hosts to one audit log, in the order of the stream.

    A record has the contents of the host's own record, and `event` (its id), `source` (the host) and `at` (the host's time).
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes = b"", *, max_size: int | None = None) -> None:
        self._ledger = Ledger(path, key, most=max_size)
        self._seen: OrderedDict[str, None] = OrderedDict()
        for line in last_lines(files_of(path), TAIL):
            match = re.search(rb'"event": "([^"\\]+)"', line)
            if match is not None:
                self._remember(match[1].decode())

    def take(self, event: Received) -> bool:
        if event.id in self._seen or "method" not in event.body:
            return True
        about = {name: value for name, value in event.body.items() if name not in _OF_LEDGER}
        method = event.body["method"]
        self._ledger.add(str(method), {"event": event.id, "source": event.source, "at": event.time, **about})
        self._remember(event.id)
        return True

    def _remember(self, id_: str) -> None:
        self._seen[id_] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def sync(self) -> None:
        self._ledger.sync()

    def close(self) -> None:
        self._ledger.close()


_OF_LEDGER = frozenset({"number", "time", "method", "previous", "hash", "event", "source", "at"})


class RecordSink:
    """Writes the records that hosts send, each to a file of its own in a directory, for `picohook replay` and `trace`."""

    def __init__(self, directory: str | os.PathLike[str], log: Log) -> None:
        self._directory = os.path.abspath(directory)
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self._log = log
        self._lines: dict[str, int] = {}
        """How many lines each record has; -1 for one that cannot be continued."""
        self._open: dict[str, int] = {}

    def take(self, event: Received) -> bool:
        if "ce-record" not in event.headers:
            return True
        name, number = event.headers["ce-record"], int(event.headers.get("ce-line", ""))
        if not re.fullmatch(r"[0-9a-f]{32}", name):
            raise ValueError("the name of its record is not one that a host makes")
        count = self._count(name)
        if count < 0 or number <= count:
            return True
        if number > count + 1:
            if event.last:
                self._log.warning("a record lacks lines, and ends there", record=name, line=count + 1)
                self._lines[name] = -1
            return event.last
        self._append(name, event.raw + b"\n")
        self._lines[name] = number
        return True

    def _append(self, name: str, line: bytes) -> None:
        if name not in self._open:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._open[name] = os.open(self._path(name), flags, 0o600)
        size = os.fstat(self._open[name]).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._open[name], left) :]
        except OSError:
            os.ftruncate(self._open[name], size)
            raise

    def _count(self, name: str) -> int:
        """How many lines the record has. Cuts off an incomplete one."""
        if name not in self._lines:
            try:
                with open(self._path(name), "r+b") as stream:
                    data = stream.read()
                    stream.truncate(data.rfind(b"\n") + 1)
            except FileNotFoundError:
                data = b""
            self._lines[name] = data.count(b"\n")
        return self._lines[name]

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, f"{name}.jsonl")

    def sync(self) -> None:
        for name in list(self._open):
            descriptor = self._open.pop(name)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        self.sync()


class LineSink:
    """Writes each event as a line of JSON, in the structured mode of CloudEvents, for a program at the end of a pipe.

    An event may come twice, with the same id.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = []

    def take(self, event: Received) -> bool:
        shown = {name.removeprefix("ce-"): value for name, value in event.headers.items() if name.startswith("ce-")}
        self._lines.append(encode({**shown, "datacontenttype": "application/json", "data": event.body}) + b"\n")
        return True

    def sync(self) -> None:
        left = memoryview(b"".join(self._lines))
        while left:
            left = left[os.write(self._descriptor, left) :]
        self._lines.clear()

    def close(self) -> None:
        os.close(self._descriptor)
