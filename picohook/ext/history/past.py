"""Past tool calls: what agents' transcripts say of each, as a stream over all files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...protocol.codec import decode_own
from .transcripts import AGENTS, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from .transcripts import PastCall, Transcript

LONGEST_LINE = 256 << 20
"""The most bytes of a line. A longer one counts as damaged."""
_CANDIDATES = 1000
"""The number of places in a damaged line at which a whole record may begin."""
_HEAD = 1 << 16
_FIRST_TIME = re.compile(rb'"timestamp"\s*:\s*"([^"]{10,40})"')


@dataclass
class Counts:
    """The counts of what was read."""

    files: int = 0
    bytes: int = 0
    total: int = 0
    """Bytes of all files."""
    damaged: int = 0
    """Lines that were skipped, wholly or in part."""
    repeated: int = 0
    """Calls that were read before, as from the copy of a session."""
    unread: Counter[str] = field(default_factory=Counter)
    """Files that cannot be read, by the reason."""


class History:
    """The past calls of these agents since a time. Iterating over it reads all transcripts once, the oldest session first.

    Keeps the calls that wait for their results, and a number for each call that was read.
    """

    def __init__(self, agents: Iterable[str], *, since: float = 0.0) -> None:
        self.counts = Counts()
        self.read: Callable[[Counts], None] = lambda _: None
        """Called now and then while files are read, to show the progress."""
        self._since = since
        self._files = []
        for agent in agents:
            for path in AGENTS[agent].files():
                with contextlib.suppress(OSError):
                    found = os.stat(path)
                    if found.st_mtime >= since:
                        self._files.append((_first_time(path), path, agent))
                        self.counts.total += found.st_size

    def __iter__(self) -> Iterator[PastCall]:
        seen: set[int] = set()
        for _, path, agent in sorted(self._files):
            transcript = AGENTS[agent](path)
            self.counts.files += 1
            for call in self._calls(transcript, path):
                key = hash((agent, *transcript.identity(call)))
                if key in seen:
                    self.counts.repeated += 1
                    continue
                seen.add(key)
                if call.at >= self._since or not call.at:
                    yield call

    def _calls(self, transcript: Transcript, path: str) -> Iterator[PastCall]:
        if path.endswith(".zst"):
            self.counts.unread["compressed"] += 1
            return
        try:
            with open(path, "rb") as file:
                lines = [file.read()] if path.endswith(".json") else self._lines(file)
                for value in (value for line in lines if transcript.wants(line) for value in self._values(line)):
                    yield from transcript.take(value)
        except OSError as error:
            self.counts.unread[error.strerror or "unreadable"] += 1
        yield from transcript.left()

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        before = self.counts.bytes
        cut = False
        while line := file.readline(LONGEST_LINE):  # splits at \n alone
            self.counts.bytes += len(line)
            if self.counts.bytes - before > 1 << 22:
                before = self.counts.bytes
                self.read(self.counts)
            ends = line.endswith(b"\n")
            if not cut and (ends or len(line) < LONGEST_LINE):
                yield line
            elif not cut:
                self.counts.damaged += 1
            cut = not ends
        self.read(self.counts)

    def _values(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the records of a line, and those that can be told apart in a damaged one."""
        try:
            found = [decode_own(data)]
        except ValueError:
            text = data.decode("utf-8", "replace").strip("\0\r\n ")
            try:
                found = [json.loads(text)] if text else []  # only Python reads a lone surrogate
                self.counts.damaged += b"\0" in data
            except (ValueError, RecursionError):
                found = [*_pieces(text)]
                self.counts.damaged += 1
        yield from (one for one in found if isinstance(one, dict))


def _pieces(text: str) -> Iterator[Any]:
    """Yields the whole records in a line with one that was cut off."""
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_CANDIDATES):
        at = text.find('{"', at + 1)
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if end == len(text) or text[end] in "{\0":  # else it is a part of the record that was cut off
            yield value
            at = end - 1


def _first_time(path: str) -> str:
    """Returns the first time in a file: a copy of a session is read after the session."""
    match = None
    with contextlib.suppress(OSError), open(path, "rb") as file:
        match = _FIRST_TIME.search(file.read(_HEAD))
    return match[1].decode("ascii", "replace") if match else "~"


def since(text: str) -> float:
    """Returns the seconds since 1970 of `30d`, `12h` or a date. Raises `PicohookError`."""
    match = re.fullmatch(r"(\d{1,6})([dhm])", text)
    if match:
        return time.time() - int(match[1]) * {"d": 86400, "h": 3600, "m": 60}[match[2]]
    if found := seconds_of(text):
        return found
    raise PicohookError(
        f"{text!r} is not a time: give days, hours or minutes before now, such as 30d, or a date, 2026-01-31"
    )
