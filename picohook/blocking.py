"""`BlockingHost`: a host for programs without an event loop. It runs on its own loop, in its own thread."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import BlockingPortal

from .calls.caller import Caller
from .errors import PicohookError
from .model.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from .blocking_methods import BlockingMethods
    from .engine.engine import Engine
    from .model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult
else:
    BlockingMethods = object


class BlockingHost(BlockingMethods):
    """`Host` without `await`. Any thread may call it, and calls of several threads run concurrently."""

    def __init__(self, host: Engine) -> None:
        assert isinstance(host, Caller)  # `Host` is both
        self._host = host
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._closed = False

    def __enter__(self) -> Self:
        if self._portal is not None:
            raise PicohookError("a host is entered once: make another one")
        with ExitStack() as stack:
            self._portal = stack.enter_context(_LoopInThread())
            stack.enter_context(self._portal.wrap_async_context_manager(self._host))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host.inherited:  # the event loop's thread and the hooks are the parent's
            return
        try:
            self._stack.__exit__(kind, error, trace)
        finally:
            self._closed = True

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._portal is None:
            raise PicohookError("the host is not running: use it inside `with`")
        if self._closed:
            raise PicohookError("the host is closed: use it inside its `with`, and make another one afterwards")
        self._host._mounted.require_open()  # noqa: SLF001 - the same object in two forms
        return self._portal.call(partial(function, *arguments, **named))

    def run_tool(self, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
        """See `Host.run_tool`. The tool runs in a worker thread, so hooks are served while it blocks."""
        return self._call(self._host.run_tool, call, _in_thread(execute))  # type: ignore[no-any-return]

    def run_llm(self, request: LLMRequest | Mapping[str, Any], complete: Callable[[LLMRequest], Any]) -> LLMResponse:
        """See `Host.run_llm`. `complete` runs in a worker thread. The response comes whole, and not in parts."""
        return self._call(self._host.run_llm, request, _in_thread(complete))  # type: ignore[no-any-return]


def _made(name: str) -> Callable[..., Any]:
    """Returns a method that calls the host's method of that name in the host's thread, and returns its result."""

    def method(self: BlockingHost, *arguments: Any, **named: Any) -> Any:
        return self._call(getattr(self._host, name), *arguments, **named)

    method.__name__, method.__qualname__, method.__doc__ = name, f"BlockingHost.{name}", f"See `Host.{name}`."
    return method


MADE = (
    *STAGES,
    *("ask", "decide", "conclude", "decide_llm", "conclude_llm", "emit", "emit_and_wait", "prove_life"),
    *("mount", "unmount", "reset", "restart", "reload", "status"),
)
"""The methods that differ from the host's own in `await` alone. `blocking_methods.pyi` has their signatures."""

for _name in MADE:
    setattr(BlockingHost, _name, _made(_name))


class _LoopInThread:
    """An event loop in its own thread, and the portal to it.

    anyio's `start_blocking_portal` does not do: it is a generator, and in a forked child, which lacks the thread, its
    finalization never ends.
    """

    def __enter__(self) -> BlockingPortal:
        entered: Future[BlockingPortal] = Future()

        async def serve() -> None:
            async with BlockingPortal() as portal:
                entered.set_result(portal)
                await portal.sleep_until_stopped()

        def run() -> None:
            try:
                anyio.run(serve)
            except BaseException as error:
                if entered.done():
                    raise
                entered.set_exception(error)

        self._thread = Thread(target=run, name="picohook", daemon=True)
        self._thread.start()
        self._portal = entered.result()
        return self._portal

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with suppress(RuntimeError):  # it has ended
                self._portal.call(self._portal.stop, kind is not None)
        finally:
            self._thread.join()


def _in_thread(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    from anyio.to_thread import run_sync  # only where a function is given

    async def call(argument: Any) -> Any:
        # It is cancelled only when the program is interrupted: then the program does not wait for a tool that blocks.
        return await run_sync(function, argument, abandon_on_cancel=True)

    return call
