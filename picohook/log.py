"""What the host has to say about itself and its hooks.

A host logs through a private structlog logger over `logging.getLogger("picohook")`, so nothing is configured globally and
an embedder decides with the standard library what is shown; or gives a logger of its own. Payloads are never logged.
Whatever is logged is escaped first, since much of it came from a hook, and a logger that fails is counted and otherwise
ignored: no outcome depends on it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from .text import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


class Logger(Protocol):
    """What a logger must offer: structlog's shape."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


class Allowance:
    """So many of something in a window of time. The next one after its end opens a new window."""

    __slots__ = ("_count", "_ends", "_left", "_window")

    def __init__(self, count: int, window: float) -> None:
        self._count = count
        self._window = window
        self._left = 0
        self._ends = float("-inf")

    def take(self, now: float) -> bool:
        """Whether one more is within it."""
        if now >= self._ends:
            self._ends, self._left = now + self._window, self._count
        self._left -= 1
        return self._left >= 0


class Log:
    """A logger that cannot hurt."""

    __slots__ = ("_failed", "_fields", "_target")

    def __init__(self, target: Logger | None = None) -> None:
        self._target = target
        self._fields: dict[str, Any] = {}
        self._failed = [0]

    def bind(self, **fields: Any) -> Log:
        """The same log, with these fields on all it says."""
        bound = Log(self._target)
        bound._fields = {**self._fields, **fields}
        bound._failed = self._failed
        return bound

    @property
    def failures(self) -> int:
        """How often the logger failed, for this log and all that are bound to it."""
        return self._failed[0]

    def debug(self, event: str, **fields: Any) -> None:
        """For somebody who debugs a hook."""
        self._say("debug", logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Worth knowing."""
        self._say("info", logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is wrong, and the host goes on."""
        self._say("warning", logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something is lost until somebody acts."""
        self._say("error", logging.ERROR, event, fields)

    def _say(self, method: str, level: int, event: str, fields: dict[str, Any]) -> None:
        try:
            if self._target is None:
                if not _STDLIB.isEnabledFor(level):
                    return
                self._target = _default()
            shown = {key: escape(value) if isinstance(value, str) else value for key, value in fields.items()}
            getattr(self._target, method)(escape(event), **self._fields, **shown)
        except Exception:  # noqa: BLE001 - promise 15: a failing logger never changes an outcome
            self._failed[0] += 1


_STDLIB = logging.getLogger("picohook")
FIELDS = "picohook"
"""The attribute of a standard log record that holds the line's event and fields, for handlers that want them apart."""


def rendered(fields: Mapping[str, Any], *, without: str = "") -> str:
    """The line that a log record shows: its event, and its fields but this one."""
    shown = (f"{key}={_quoted(value)}" for key, value in fields.items() if key not in {"event", without})
    return " ".join((fields["event"], *shown))


def _quoted(value: Any) -> str:
    """A value that ends where its quotes end. It was escaped already: nothing in it is escaped again."""
    if not isinstance(value, str):
        return repr(value)
    if "'" not in value:
        return f"'{value}'"
    return '"{}"'.format(value.replace('"', "'"))


def _default() -> Logger:
    import structlog  # noqa: PLC0415 - costs more than all the rest of a start, and many hosts never log

    def render(_: Any, __: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
        return (rendered(fields),), {"extra": {FIELDS: dict(fields)}}

    logger: Logger = structlog.wrap_logger(_STDLIB, processors=[render], wrapper_class=structlog.BoundLogger)
    return logger
