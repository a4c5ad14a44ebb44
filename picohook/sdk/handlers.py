"""Which handler is called for what."""

from __future__ import annotations

from ..wire import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .base import Call
    from .types import Handler

REMEMBERED = 1024
"""Names of tools for which it is remembered which handlers they have."""

_COROUTINE = 0x80  # inspect.CO_COROUTINE


class Handlers:
    """The handlers of one stage, in the order in which they were registered."""

    def __init__(self, call: type[Call], default: Handler | None = None) -> None:
        self.call = call
        self.last: Handler | None = None
        """Asked after all others."""
        self._default = default
        self._handlers: list[tuple[Callable[[str], object] | None, Handler]] = []
        self._chosen: dict[str | None, tuple[Handler, ...]] = {}

    def add(self, handler: Handler, tool: str | None) -> None:
        """One more handler, for the tools that match."""
        self._handlers.append((None if tool is None else matcher(tool), handler))

    def __iter__(self) -> Iterator[Handler]:
        return (handler for _, handler in self._handlers)

    def handlers_for(self, tool: object) -> Iterator[Handler]:
        """Those to ask about this tool, in order."""
        name = tool if isinstance(tool, str) else None
        chosen = self._chosen.get(name)
        if chosen is None:
            if len(self._chosen) >= REMEMBERED:
                self._chosen.clear()
            chosen = self._chosen[name] = tuple(self._choose(name))
        return iter(chosen)

    def _choose(self, tool: str | None) -> Iterator[Handler]:
        asked = False
        for matches, handler in self._handlers:
            if matches is None or (tool is not None and matches(tool)):
                asked = True
                yield handler
        if self.last is not None:
            yield self.last
        elif not asked and self._default is not None:
            yield self._default


def matcher(pattern: str) -> Callable[[str], object]:
    """What says whether a tool's name matches: a name; several as "a|b"; with * ? [] a glob; between slashes a regex.

    These are the patterns of a hook's `filter` in the host's configuration.
    """
    if not any(character in pattern for character in "*?[/"):
        return frozenset(name.strip() for name in pattern.split("|")).__contains__
    import re  # noqa: PLC0415 - for patterns only
    from fnmatch import translate  # noqa: PLC0415

    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        return re.compile(pattern[1:-1]).fullmatch
    return re.compile("|".join(translate(name.strip()) for name in pattern.split("|"))).fullmatch


def kinds_named(kinds: tuple[str, ...]) -> frozenset[str] | None:
    """The event kinds that are meant, by the names of the older dialect; None for all. `ValueError` for one there is not."""
    if not kinds or any(kind in words.EVERY_KIND for kind in kinds):
        return None
    named = frozenset(words.RUNTIME_KINDS.get(kind, kind) for kind in kinds)
    for kind in named - words.EVENT_KINDS.keys():
        import difflib  # noqa: PLC0415 - for mistakes only

        near = difflib.get_close_matches(kind, [*words.EVENT_KINDS, *words.RUNTIME_KINDS], 1)
        raise ValueError(f"there is no event kind {kind!r}" + (f": did you mean {near[0]!r}?" if near else ""))
    return named


def is_plain(handler: Handler) -> bool:
    """Whether this is surely a function that answers when it returns."""
    code = getattr(handler, "__code__", None)
    return code is not None and not code.co_flags & _COROUTINE


def threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one to be awaited, each call of which has a thread of its own."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        from .loop import in_thread  # noqa: PLC0415 - there is a loop by now, and not before

        return await in_thread(function, *args, **kwargs)

    return call
