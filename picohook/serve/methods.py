"""What can be asked of a running host through its control socket."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from ..observe.metrics import prometheus
from ..roster import in_order, layer
from ..stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..host import Host


class Methods:
    """The methods, for one client."""

    def __init__(self, host: Host, watch: Callable[[], None]) -> None:
        self._host = host
        self._begin_to_tell = watch

    async def status(self) -> dict[str, Any]:
        return self._host.status().wire()

    async def list(self) -> dict[str, Any]:
        asked = {
            name: [
                {
                    "hook": hook.name,
                    "layer": layer(hook),
                    "timeout": hook.spec.timeout_at(name, self._host.timeouts, approves=stage.approves),
                }
                for hook in self._host.asked_at(name)
            ]
            for name, stage in STAGES.items()
        }
        observers = [
            {"hook": hook.name, "layer": layer(hook), "observe": [*hook.spec.observe]}
            for hook in in_order(self._host.hooks)
            if hook.spec.observe
        ]
        return {"stages": {name: hooks for name, hooks in asked.items() if hooks}, "events": observers}

    async def metrics(self) -> str:
        return prometheus(self._host.status().wire()["hooks"])

    async def reload(self) -> dict[str, Any]:
        return (await self._host.reload()).wire()

    async def reset(self, hook: str) -> bool:
        self._host.reset(_hook_name(hook))
        return True

    async def restart(self, hook: str) -> bool:
        self._host.restart(_hook_name(hook))
        return True

    async def watch(self) -> bool:
        self._begin_to_tell()
        return True


_METHODS = {
    method.__name__: method
    for method in (
        Methods.status,
        Methods.list,
        Methods.metrics,
        Methods.reload,
        Methods.reset,
        Methods.restart,
        Methods.watch,
    )
}


@functools.cache
def dispatcher() -> Callable[[Methods, Any], dict[str, Any]]:
    """What finds a request's method and holds its params against it.

    Doing it is left to who asked: the library's own way of awaiting is asyncio's. Its import takes so long that it is done
    in a thread, when the first client asks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
        from jsonrpcserver import Success, dispatch_to_serializable  # noqa: PLC0415

    def later(method: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(method)
        def bound(*arguments: Any, **named: Any) -> Any:
            return Success(functools.partial(method, *arguments, **named))

        return bound

    methods = {name: later(method) for name, method in _METHODS.items()}

    def dispatch(methods_of: Methods, request: Any) -> dict[str, Any]:
        reply: Any = dispatch_to_serializable(
            request, methods, context=methods_of, deserializer=lambda asked: asked, validator=lambda _: None
        )
        return dict(reply)

    return dispatch


class NotAHookError(Exception):
    """What should name a hook is no name."""


def _hook_name(given: object) -> str:
    if not isinstance(given, str):
        raise NotAHookError
    return given
