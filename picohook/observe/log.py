"""The host's log.

By default a host logs through a private structlog logger to `logging.getLogger("picohook")`. It configures nothing globally:
the embedder configures the standard library's logging, or passes its own logger of either kind. Payloads are never logged. A
record of the standard library has the attributes `hook`, `stage`, `cause`, and `fields` with all fields. Texts are escaped,
because many come from hooks. If a logger raises, the error is counted and otherwise ignored.
"""

from __future__ import annotations

import copy
import inspect
import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import PicohookError
from ..wire.text import cut, escape

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


class FieldLogger(Protocol):
    """A logger that takes fields, as structlog's do."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


Logger: TypeAlias = "FieldLogger | logging.Logger | logging.LoggerAdapter[Any]"
"""The loggers that a host accepts."""

LONGEST_VALUE = 64 * 1024
"""Bytes of a field that are logged."""
LEVELS = ("debug", "info", "warning", "error")
"""The levels of the log, and of `host.log`, where a line of another level is logged as `info`."""


class Log:
    """A log whose methods never raise. Its constructor raises `PicohookError` if the target is not a logger."""

    def __init__(self, target: Logger | None = None) -> None:
        logger: Any = _STDLIB if target is None else target
        if logger is logging:  # the module logs to the root
            logger = logging.getLogger()
        if not all(_takes_fields(getattr(logger, level, None)) for level in LEVELS):
            raise PicohookError(
                f"{logger!r} is not a logger: its methods {', '.join(LEVELS)} must take a text and keywords"
            )
        standard = isinstance(logger, logging.Logger | logging.LoggerAdapter)
        self._standard: logging.Logger | logging.LoggerAdapter[Any] | None = logger if standard else None
        self._target: FieldLogger | None = None if standard else logger
        self._fields: dict[str, Any] = {}
        self._failed = [0]

    def bind(self, **fields: Any) -> Log:
        """Returns this log with these fields added to every line."""
        bound = copy.copy(self)
        bound._fields = {**self._fields, **fields}
        return bound

    def unbound(self) -> Log:
        """This log without the fields that were added to every line."""
        bound = copy.copy(self)
        bound._fields = {}
        return bound

    @property
    def failures(self) -> int:
        """The number of times that the logger raised, for this log and all logs bound from it."""
        return self._failed[0]

    def debug(self, event: str, **fields: Any) -> None:
        """Log a detail for debugging a hook."""
        self._say("debug", logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log a normal event."""
        self._say("info", logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a fault after which the host can continue."""
        self._say("warning", logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a fault that lasts until a person acts."""
        self._say("error", logging.ERROR, event, fields)

    def _say(self, method: str, level: int, event: str, fields: dict[str, Any]) -> None:
        try:
            if self._standard is not None:
                if not self._standard.isEnabledFor(level):
                    return
                self._target = self._target or _structlog_logger(self._standard)
            assert self._target is not None
            shown = {
                key: escape(cut(value, LONGEST_VALUE)) if isinstance(value, str) else value
                for key, value in fields.items()
            }
            getattr(self._target, method)(escape(event), **self._fields, **shown)
        except Exception:  # promise 15: a failing logger never changes an outcome
            self._failed[0] += 1


def _takes_fields(method: Any) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return callable(method)
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


_STDLIB = logging.getLogger("picohook")
EVENT, FIELDS = "event", "fields"
"""The attributes of a standard log record with the text and the fields of a line, for handlers that need them separately."""


def rendered(event: str, fields: Mapping[str, Any]) -> str:
    """The text of a log record."""
    return " ".join((event, *(f"{key}={_quoted(value)}" for key, value in fields.items())))


def _quoted(value: Any) -> str:
    """A text in quotes, or the `repr` of another value. The text must already be escaped."""
    if not isinstance(value, str):
        return repr(value)
    if "'" not in value:
        return f"'{value}'"
    return '"{}"'.format(value.replace('"', "'"))


def _structlog_logger(standard: logging.Logger | logging.LoggerAdapter[Any]) -> FieldLogger:
    """A logger that adds its fields to the text and to the record."""
    import structlog  # the slowest import, and many hosts never log

    def render(_: Any, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
        message = event.pop("event")
        fields = dict(event)
        text = rendered(message, fields)
        where = {"hook": fields.get("hook", ""), "stage": fields.get("stage", "")}
        extra = {**where, "cause": fields.get("cause", fields.get("why", "")), EVENT: message, FIELDS: fields}
        if isinstance(standard, logging.Logger):
            return (text,), {"extra": extra}
        text, more = standard.process(text, {})  # if it were called directly, it would replace this `extra`
        return (text,), {**more, "extra": {**extra, **(more.get("extra") or {})}}

    target = standard
    while not isinstance(target, logging.Logger):
        target = target.logger
    logger: FieldLogger = structlog.wrap_logger(target, processors=[render], wrapper_class=structlog.BoundLogger)
    return logger
