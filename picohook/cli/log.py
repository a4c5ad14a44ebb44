"""The host's log on stderr."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from ..observe.log import EVENT, FIELDS, rendered

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
        """Write a record without the parts that were shown. Skip it if its cause was shown, unless --verbose is given."""
        fields = getattr(record, FIELDS, {})
        told = {name: fields[name] for name in ("why", "hint") if fields.get(name)}
        shown = [name for name, text in told.items() if any(text in one or one in text for one in self.shown or ())]
        if "why" in shown and _LOGGER.level >= logging.WARNING:
            return
        message = record.getMessage()
        if shown:
            message = rendered(getattr(record, EVENT), {key: fields[key] for key in fields if key not in shown})
        elif self.shown is not None and fields.get("why"):
            self.shown.append(fields["why"])
        print(f"{record.levelname}: {message}", file=sys.stderr, flush=True)


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
