"""What the host logs, on stderr."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from ..observe.log import EVENT, FIELDS, rendered

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
        """Write a line without what was shown already. If its cause was, nothing is written, unless the whole log is wanted."""
        fields = getattr(record, FIELDS, {})
        shown = [name for name in ("why", "hint") if self._was_shown(fields.get(name, ""))]
        if "why" in shown and _LOGGER.level >= logging.WARNING:
            return
        message = record.getMessage()
        if shown:
            message = rendered(getattr(record, EVENT), {key: fields[key] for key in fields if key not in shown})
        elif self.shown is not None and fields.get("why"):
            self.shown.append(fields["why"])
        print(f"{record.levelname}: {message}", file=sys.stderr, flush=True)

    def _was_shown(self, said: str) -> bool:
        return bool(said) and any(said in text or text in said for text in self.shown or ())


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
