"""The files that a call and its session have written: if one starts later, its text is read as if it stood in the call."""

from collections.abc import Callable

from ...wire.regular_files import read_regular
from .places import Places
from .words import UNKNOWN

MOST_SESSIONS = 64
MOST_FILES = 256
"""Files of one session. The oldest is forgotten first."""
MOST_BYTES = 256_000
"""The longest file that is read."""


class Memory:
    """The files that sessions have written."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, str]] = {}

    def note(self, session: str, written: dict[str, str]) -> None:
        """A call of this session writes these files."""
        if not written:
            return
        kept = {path: text for path, text in self._sessions.pop(session, {}).items() if path not in written}
        new = {path: text if len(text) <= MOST_BYTES else UNKNOWN for path, text in written.items()}
        files = self._sessions[session] = kept | new
        while len(files) > MOST_FILES or sum(map(len, files.values())) > 4 * MOST_BYTES:
            del files[next(iter(files))]
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def forget(self, session: str) -> None:
        """The session has ended."""
        self._sessions.pop(session, None)

    def text(self, session: str, path: str) -> str | None:
        """The text of a file that this session wrote, as it is now; None if it wrote no such file, or no text."""
        files = self._sessions.get(session, {})
        if path not in files:
            return None
        try:
            data = read_regular(path, MOST_BYTES)
        except OSError:
            return files[path]
        if b"\0" in data:
            return None  # a program that was compiled
        return data.decode("utf-8", "replace")


class CallFiles:
    """The files of one call."""

    def __init__(
        self, places: Places, texts: dict[str, str], written: Callable[[str], str | None] | None = None
    ) -> None:
        """`texts` get the files that it writes. `written` returns the text of a file that its session wrote, if any."""
        self.places, self.texts = places, texts
        self.fetched: set[str] = set()
        """Files that it downloads."""
        self.running: list[str] = []
        """Files that run now."""
        self._written = written or (lambda _: None)

    def text_of(self, path: str) -> str | None:
        """The text of a file that the call or its session wrote; None if they wrote no such file."""
        return self.texts[path] if path in self.texts else self._written(path)
