"""What the host has to say about itself and its hooks.

A host logs through a private structlog logger over `logging.getLogger("picohook")`, so nothing is configured globally and
an embedder decides with the standard library what is shown; or gives a logger of its own, of either kind. Payloads are never
logged. A record of the standard library's has the attributes `hook`, `stage` and `cause`, and `fields` with all there are.
Whatever is logged is escaped first, since much of it came from a hook, and a logger that fails is counted and otherwise
ignored: no outcome depends on it.
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
    """A logger that takes fields: structlog's shape."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


Logger: TypeAlias = "FieldLogger | logging.Logger | logging.LoggerAdapter[Any]"
"""What a host can log to."""

LEVELS = ("debug", "info", "warning", "error")


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
    """A logger that cannot hurt. Raises `PicohookError` for a target that is none."""

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
        """The same log, with these fields on all it says."""
        bound = copy.copy(self)
        bound._fields = {**self._fields, **fields}
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
            if self._standard is not None:
                if not self._standard.isEnabledFor(level):
                    return
                self._target = self._target or _over(self._standard)
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
"""The attributes of a standard log record that hold what a line says and its fields, for handlers that want them apart."""


def rendered(event: str, fields: Mapping[str, Any]) -> str:
    """The line that a log record shows."""
    return " ".join((event, *(f"{key}={_quoted(value)}" for key, value in fields.items())))


def _quoted(value: Any) -> str:
    """A value that ends where its quotes end. It was escaped already: nothing in it is escaped again."""
    if not isinstance(value, str):
        return repr(value)
    if "'" not in value:
        return f"'{value}'"
    return '"{}"'.format(value.replace('"', "'"))


def _over(standard: logging.Logger | logging.LoggerAdapter[Any]) -> FieldLogger:
    """A logger that takes fields, and puts them into the text and onto the record."""
    import structlog  # noqa: PLC0415 - costs more than all the rest of a start, and many hosts never log

    def render(_: Any, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
        said = event.pop("event")
        fields = dict(event)
        text = rendered(said, fields)
        where = {"hook": fields.get("hook", ""), "stage": fields.get("stage", "")}
        extra = {**where, "cause": fields.get("cause", fields.get("why", "")), EVENT: said, FIELDS: fields}
        if isinstance(standard, logging.Logger):
            return (text,), {"extra": extra}
        text, more = standard.process(text, {})  # by itself it would put its own `extra` in the place of this one
        return (text,), {**more, "extra": {**extra, **(more.get("extra") or {})}}

    target = standard
    while not isinstance(target, logging.Logger):
        target = target.logger
    logger: FieldLogger = structlog.wrap_logger(target, processors=[render], wrapper_class=structlog.BoundLogger)
    return logger
