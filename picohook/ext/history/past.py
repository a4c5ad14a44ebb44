"""Past tool calls: what agents' transcripts say of each, as a stream over all files."""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ...journal.ledger import LONGEST_LINE
from ...protocol.codec import decode_own
from ...wire.regular_files import open_regular
from .transcripts import AGENTS, PastCall, Transcript, found_of

_HEAD, _PIECE = 1 << 16, 1 << 20
"""The bytes of a file in which its first time is, and those that are read at once to find the end of a line."""
_FIRST_TIME = re.compile(rb'"timestamp"\s*:\s*"([^"]{10,40})"')


class History:
    """The past calls of these agents since a time. Iterating over it reads all transcripts once, the oldest session first.

    Keeps the calls that wait for their results, and a number for each call that was read.
    """

    def __init__(self, agents: Iterable[str], *, since: float = 0.0) -> None:
        self.counts = Counter(files=0, bytes=0, damaged=0, repeated=0)
        """How much was read, the lines that were skipped, and the calls that were read before, as from a session's copy."""
        self.unread: Counter[str] = Counter()
        """Files and directories that cannot be read, by the reason."""
        self.progress: Callable[[int], Any] = int
        """Called with the number of bytes that were read."""
        self.total = 0
        """Bytes of all files."""
        self._since = since
        self._files = []
        for agent in agents:
            files = AGENTS[agent].files
            above = found_of(agent, {str(directory) for pattern in files for directory in Path(pattern).parents})
            closed = (path for path in above if os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK))
            self.unread.update(f"you may not read {path}" for path in closed)
            for path in found_of(agent, files):
                try:
                    found = os.stat(path)
                    if found.st_mtime >= since:
                        self._files.append((_first_time(path), path, agent))
                        self.total += found.st_size
                except OSError as error:
                    self.unread[error.strerror or "unreadable"] += 1

    def __iter__(self) -> Iterator[PastCall]:
        seen: set[int] = set()
        for _, path, agent in sorted(self._files):
            for call in self._calls(Transcript(agent, path), path):
                self.progress(self.counts["bytes"])
                key = hash((agent, *(str(getattr(call, name)) for name in AGENTS[agent].same)))
                if key in seen:
                    self.counts["repeated"] += 1
                elif call.at >= self._since or not call.at:
                    yield call
                seen.add(key)

    def _calls(self, transcript: Transcript, path: str) -> Iterator[PastCall]:
        if path.endswith(".zst"):
            self.unread["compressed"] += 1
            return
        try:
            with open(open_regular(path)[0], "rb") as file:
                self.counts["files"] += 1
                is_whole = path.endswith(".json")
                for line in self._lines(file, is_whole=is_whole):
                    if transcript.wants(line):
                        yield from transcript.take(self._record(line, is_whole=is_whole or line.endswith(b"\n")))
        except OSError as error:
            self.unread[error.strerror or "unreadable"] += 1
        yield from transcript.open.values()  # they have no result

    def _lines(self, file: IO[bytes], *, is_whole: bool) -> Iterator[bytes]:
        """Yields the lines of a file, or all of it if it `is_whole`. One that is too long is counted, and never in memory."""
        read = file.read if is_whole else file.readline
        while line := read(_PIECE):
            size, last = len(line), line
            while len(last) == _PIECE and (is_whole or not last.endswith(b"\n")):
                last = read(_PIECE)
                size += len(last)
            self.counts["bytes"] += size
            if size > LONGEST_LINE:
                self.counts["damaged"] += 1
                continue
            if last is not line:
                file.seek(-size, os.SEEK_CUR)
                line = file.read(size)
            yield line
            if not line.endswith(b"\n"):
                break  # the agent may be writing it, and goes on in its middle

    def _record(self, line: bytes, *, is_whole: bool) -> dict[str, Any]:
        """Returns the record of a line; an empty one for a damaged line, which is counted if the line is whole."""
        value = None
        with contextlib.suppress(ValueError):
            value = decode_own(line.strip(b"\0\r\n ") or b"{}")
        self.counts["damaged"] += (value is None and is_whole) or b"\0" in line
        return value if isinstance(value, dict) else {}


def _first_time(path: str) -> str:
    """Returns the first time in a file: a copy of a session is read after the session."""
    match = None
    with contextlib.suppress(OSError), open(open_regular(path)[0], "rb") as file:
        match = _FIRST_TIME.search(file.read(_HEAD))
    return match[1].decode("ascii", "replace") if match else "~"
