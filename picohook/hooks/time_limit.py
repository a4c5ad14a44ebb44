"""A block of a hook's work that ends at its deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..errors import HookTimeoutError

if TYPE_CHECKING:
    from types import TracebackType


class TimeLimit:
    """Cancels its block at the deadline, and then raises `HookTimeoutError`."""

    __slots__ = ("_scope", "_why")

    def __init__(self, deadline: float, why: str = "", scope: type[anyio.CancelScope] = anyio.CancelScope) -> None:
        """`why` is another message than the usual one. `scope` is the event loop's own class, which is made sooner."""
        self._scope = scope(deadline=deadline)
        self._why = why

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope.__exit__(kind, error, trace) and self._scope.cancelled_caught:
            raise HookTimeoutError(self._why) from None
