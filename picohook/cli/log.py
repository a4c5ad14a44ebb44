"""The host's log on stderr."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from ..observe.log import FIELDS

_LOGGER = logging.getLogger("picohook")


class _Stderr(logging.Handler):
    """Writes log lines to stderr, except causes that the command has shown already."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[logging.LogRecord] | None = None
        """Records that are held back; None while records are written at once."""
        self.shown: list[str] | None = None
        """The causes that were shown; None for a command that shows no causes."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.waiting is not None:
            self.waiting.append(record)
        else:
            self.write(record)

    def write(self, record: logging.LogRecord) -> None:
        """Write a record, unless --verbose is off and its cause was shown."""
        why = getattr(record, FIELDS, {}).get("why")
        if why and self.shown is not None:
            if _LOGGER.level >= logging.WARNING and any(why in one or one in why for one in self.shown):
                return
            self.shown.append(why)
        print(f"{record.levelname}: {record.getMessage()}", file=sys.stderr, flush=True)


_stderr = _Stderr()


def log_to_stderr() -> None:
    """Show the host's warnings and errors."""
    _LOGGER.addHandler(_stderr)
    _LOGGER.setLevel(logging.WARNING)
    _LOGGER.propagate = False


def verbose(wanted: bool) -> bool:
    """Show the whole log, if wanted."""
    if wanted:
        _LOGGER.setLevel(logging.INFO)
    return wanted


@contextlib.contextmanager
def held() -> Iterator[list[str]]:
    """Hold log lines back until the block ends, and skip those whose cause the block has put into the list.

    With --verbose, every line is written at once.
    """
    causes: list[str] = []
    _stderr.shown = _stderr.shown or []
    if _LOGGER.level >= logging.WARNING:
        _stderr.waiting = []
    try:
        yield causes
    finally:
        records, _stderr.waiting = _stderr.waiting or [], None
        _stderr.shown += causes
        for record in records:
            _stderr.write(record)
