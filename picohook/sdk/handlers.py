"""The functions of a hook, by stage, event kind and tool."""

from __future__ import annotations

from functools import lru_cache

from ..wire import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .base import Call
    from .types import Handler

CACHED = 1024
"""The number of tool names for which each stage remembers the matching handlers."""

_COROUTINE, _VARARGS = 0x80, 0x04  # inspect.CO_COROUTINE, inspect.CO_VARARGS


class Handlers:
    """The handlers of one stage, in the order in which they were registered."""

    def __init__(self, call: type[Call], default: Handler | None) -> None:
        self.call = call
        self.last: Handler | None = None
        """A handler that is called after all others."""
        self._default = default
        """Called if no handler matches the tool."""
        self._handlers: list[tuple[Callable[[str], object] | None, Handler]] = []
        self._chosen = lru_cache(CACHED)(self._choose)

    def add(self, handler: Handler, tool: str | None) -> None:
        """Add a handler for the tools that match the pattern; None for all tools. Raises `ValueError` for a bad pattern."""
        self._handlers.append((None if tool is None else matcher(tool), handler))

    def handlers_for(self, tool: object) -> Iterator[Handler]:
        """Returns the handlers to call for this tool, in order."""
        return iter(self._chosen(tool if isinstance(tool, str) else None))

    def _choose(self, tool: str | None) -> list[Handler]:
        chosen = [
            handler for matches, handler in self._handlers if matches is None or (tool is not None and matches(tool))
        ]
        last = self.last or (None if chosen else self._default)
        return chosen if last is None else [*chosen, last]


class Registry:
    """All functions of one hook."""

    def __init__(self, name: str, max_in_flight: int | None) -> None:
        self.name = name
        self.stages: dict[str, Handlers] = {}
        """The handlers, by method: `hook.before_tool`."""
        self.observers: list[tuple[frozenset[str] | None, Handler]] = []
        """The handlers of events, each with its event kinds; None for all kinds."""
        self.closers: list[Callable[[], Any]] = []
        """The functions that are called when the hook ends."""
        self.max_in_flight = max_in_flight
        self.streams: bool | None = None
        """Whether all handlers of after_llm take parts of a response; None without such a handler."""
        self.awaits = False
        """Whether the result of a handler or of a tool may have to be awaited."""


def matcher(pattern: str) -> Callable[[str], object]:
    """Returns a function that tests a tool's name against a pattern.

    A pattern is a name, several names as "a|b", a glob with * ? [], or a regex between slashes. A hook's `filter` in the
    host's configuration has the same patterns, without look-around and references. Raises `ValueError` for a bad regex.
    """
    if not any(character in pattern for character in "*?[/"):
        return frozenset(name.strip() for name in pattern.split("|")).__contains__
    import re  # for patterns only
    from fnmatch import translate

    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        return re.compile(pattern[1:-1]).fullmatch
    return re.compile("|".join(translate(name.strip()) for name in pattern.split("|"))).fullmatch


def kinds_named(kinds: tuple[str, ...]) -> frozenset[str] | None:
    """Returns the event kinds by their protocol names; None for all kinds. Raises `ValueError` for an unknown kind."""
    if not kinds or any(kind in words.EVERY_KIND for kind in kinds):
        return None
    named = frozenset(words.RUNTIME_KINDS.get(kind, kind) for kind in kinds)
    for kind in named - words.EVENT_KINDS.keys():
        from ..wire.did_you_mean import nearest  # for mistakes only

        near = nearest(kind, [*words.EVENT_KINDS, *words.RUNTIME_KINDS])
        raise ValueError(f"unknown event kind {kind!r}" + (f": did you mean {near!r}?" if near else ""))
    return named


def is_plain(handler: Handler) -> bool:
    """Whether this is certainly a function whose result needs no `await`."""
    code = getattr(handler, "__code__", None)
    return code is not None and not code.co_flags & _COROUTINE


def require_one_argument(handler: Handler, decorator: str) -> None:
    """Raises `TypeError` for a function that cannot be called with one argument."""
    code = getattr(handler, "__code__", None)
    if code is not None:
        most = code.co_argcount - hasattr(handler, "__self__")
        least = most - len(getattr(handler, "__defaults__", None) or ())
        if least > 1 or (not most and not code.co_flags & _VARARGS):
            name = code.co_name
            raise TypeError(f"{decorator}: {name} is called with one argument: write def {name}(call)")
