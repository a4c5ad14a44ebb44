"""What the host logs, on stderr."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from ..log import EVENT, FIELDS, rendered

_LOGGER = logging.getLogger("picohook")


class _Stderr(logging.Handler):
    """Writes log lines. A command that shows causes itself has each of them shown once."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[logging.LogRecord] | None = None
        """What is logged while lines are held back."""
        self.shown: list[str] | None = None
        """The causes that were shown; None where lines are written whatever was shown before."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.waiting is not None:
            self.waiting.append(record)
        else:
            self.write(record)

    def write(self, record: logging.LogRecord) -> None:
        """Write a line. Of one whose cause was shown the rest, where the whole log is wanted, and otherwise nothing."""
        fields = getattr(record, FIELDS, {})
        why, message = fields.get("why", ""), record.getMessage()
        if why and self.shown is not None:
            if any(why in text or text in why for text in self.shown):
                if _LOGGER.level >= logging.WARNING:
                    return
                message = rendered(getattr(record, EVENT), {key: fields[key] for key in fields if key != "why"})
            else:
                self.shown.append(why)
        print(f"{record.levelname}: {message}", file=sys.stderr, flush=True)


_stderr = _Stderr()


def log_to_stderr() -> None:
    """Show what the host warns of."""
    _LOGGER.addHandler(_stderr)
    _LOGGER.setLevel(logging.WARNING)
    _LOGGER.propagate = False


def verbose(wanted: bool) -> bool:
    """Show all of the log."""
    if wanted:
        _LOGGER.setLevel(logging.INFO)
    return wanted


@contextlib.contextmanager
def held() -> Iterator[list[str]]:
    """Hold warnings back until the block ends, and then show those whose cause is not among the texts that it has noted.

    Where the whole log is wanted, each line comes when it is logged.
    """
    noted: list[str] = []
    _stderr.shown = _stderr.shown or []
    if _LOGGER.level >= logging.WARNING:
        _stderr.waiting = []
    try:
        yield noted
    finally:
        records, _stderr.waiting = _stderr.waiting or [], None
        _stderr.shown += noted
        for record in records:
            _stderr.write(record)
