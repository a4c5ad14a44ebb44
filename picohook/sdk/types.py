"""The types of decorators and handlers, for type checkers. Never imported at run time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from .base import Decision

if TYPE_CHECKING:
    from .views import Event

Handler: TypeAlias = Callable[[Any], Any]

Returned: TypeAlias = Decision | dict[str, Any] | bool | None
"""The result of a handler. True and False are for handlers of approve_tool."""

C = TypeVar("C")
R = TypeVar("R", bound=Returned | Awaitable[Returned])
F = TypeVar("F", bound=Callable[..., Any])


class OnStage(Protocol[C]):
    """Registers a handler: `@app.before_tool`, or with settings. `tool` is for stages about a tool, `stream` for after_llm."""

    @overload
    def __call__(self, handler: Callable[[C], R], /) -> Callable[[C], R]: ...
    @overload
    def __call__(
        self, *, tool: str | None = None, stream: bool = False
    ) -> Callable[[Callable[[C], R]], Callable[[C], R]]: ...


class OnEvent(Protocol):
    """Registers a handler of events: `@app.on_event` for all kinds, or with the kinds that it is for."""

    @overload
    def __call__(self, handler: Callable[[Event], R], /) -> Callable[[Event], R]: ...
    @overload
    def __call__(self, *kinds: str) -> Callable[[Callable[[Event], R]], Callable[[Event], R]]: ...


class AddTool(Protocol):
    """Registers a tool: `@app.tool`, or with settings."""

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(
        self,
        *,
        name: str = "",
        description: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> Callable[[F], F]: ...
