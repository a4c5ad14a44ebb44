"""The host's log.

By default a host logs through a private structlog logger to `logging.getLogger("picohook")`. Nothing is configured globally, so
the embedder decides with the standard library what is shown, or passes its own logger of either kind. Payloads are never
logged. A record of the standard library has the attributes `hook`, `stage`, `cause`, and `fields` with all fields.
Texts are escaped first, because many come from hooks. A logger that raises is counted and otherwise ignored.
"""

from __future__ import annotations

import copy
import inspect
import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import PicohookError
from ..wire.text import escape

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

LEVELS = ("debug", "info", "warning", "error")


class Log:
    """A logger that never raises. Making one raises `PicohookError` if the target is no logger."""

    __slots__ = ("_failed", "_fields", "_standard", "_target")

    def __init__(self, target: Logger | None = None) -> None:
        given: Any = _STDLIB if target is None else target
        if given is logging:  # the module logs to the root
            given = logging.getLogger()
        if not all(_takes_fields(getattr(given, level, None)) for level in LEVELS):
            raise PicohookError(
                f"a logger has the methods {', '.join(LEVELS)}, which take a text and keywords: {given!r} is none"
            )
        standard = isinstance(given, logging.Logger | logging.LoggerAdapter)
        self._standard: logging.Logger | logging.LoggerAdapter[Any] | None = given if standard else None
        self._target: FieldLogger | None = None if standard else given
        self._fields: dict[str, Any] = {}
        self._failed = [0]

    def bind(self, **fields: Any) -> Log:
        """The same log with these fields on every line."""
        bound = copy.copy(self)
        bound._fields = {**self._fields, **fields}
        return bound

    @property
    def failures(self) -> int:
        """How often the logger raised, for this log and all logs bound from it."""
        return self._failed[0]

    def debug(self, event: str, **fields: Any) -> None:
        """A detail for debugging a hook."""
        self._say("debug", logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Something worth knowing."""
        self._say("info", logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is wrong, and the host can continue."""
        self._say("warning", logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something stays broken until a person acts."""
        self._say("error", logging.ERROR, event, fields)

    def _say(self, method: str, level: int, event: str, fields: dict[str, Any]) -> None:
        try:
            if self._standard is not None:
                if not self._standard.isEnabledFor(level):
                    return
                self._target = self._target or _structlog_logger(self._standard)
            assert self._target is not None
            shown = {key: escape(value) if isinstance(value, str) else value for key, value in fields.items()}
            getattr(self._target, method)(escape(event), **self._fields, **shown)
        except Exception:  # noqa: BLE001 - promise 15: a failing logger never changes an outcome
            self._failed[0] += 1


def _takes_fields(method: Any) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return callable(method)
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


_STDLIB = logging.getLogger("picohook")
EVENT, FIELDS = "event", "fields"
"""The attributes of a standard log record with the text and the fields of a line, for handlers that want them separately."""


def rendered(event: str, fields: Mapping[str, Any]) -> str:
    """The text of a log record."""
    return " ".join((event, *(f"{key}={_quoted(value)}" for key, value in fields.items())))


def _quoted(value: Any) -> str:
    """The value in quotes that do not occur in it. It was escaped before."""
    if not isinstance(value, str):
        return repr(value)
    if "'" not in value:
        return f"'{value}'"
    return '"{}"'.format(value.replace('"', "'"))


def _structlog_logger(standard: logging.Logger | logging.LoggerAdapter[Any]) -> FieldLogger:
    """A logger that takes fields and puts them into the text and on the record."""
    import structlog  # noqa: PLC0415 - slower to import than all the rest, and many hosts never log

    def render(_: Any, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
        message = event.pop("event")
        fields = dict(event)
        text = rendered(message, fields)
        where = {"hook": fields.get("hook", ""), "stage": fields.get("stage", "")}
        extra = {**where, "cause": fields.get("cause", fields.get("why", "")), EVENT: message, FIELDS: fields}
        if isinstance(standard, logging.Logger):
            return (text,), {"extra": extra}
        text, more = standard.process(text, {})  # called directly, it would replace this `extra` with its own
        return (text,), {**more, "extra": {**extra, **(more.get("extra") or {})}}

    target = standard
    while not isinstance(target, logging.Logger):
        target = target.logger
    logger: FieldLogger = structlog.wrap_logger(target, processors=[render], wrapper_class=structlog.BoundLogger)
    return logger
