"""`BlockingHost`: a host for programs without an event loop. It runs on its own loop, in its own thread."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack, closing, nullcontext, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import BlockingPortal

from .calls.model_call import decide_llm, run_llm
from .calls.tool_call import decide, run_tool
from .errors import PicohookError
from .model.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from .calls.model_call import DecidedRequest
    from .calls.tool_call import DecidedCall, OnPause, ToolRun
    from .engine.engine import Engine
    from .engine.settings import EventOf
    from .engine.status import HostStatus, Reloaded
    from .hooks.base import Hook
    from .model.decisions import Outcome
    from .model.payloads import (
        Compaction,
        Finish,
        LLMRequest,
        LLMResponse,
        Payload,
        Prompt,
        ToolCall,
        ToolResult,
        ToolReturn,
    )
    from .model.spec import HookSpec


class BlockingHost:
    """`Host` without `await`. Any thread may call it, and calls of several threads run concurrently."""

    def __init__(self, host: Engine) -> None:
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

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._portal is None:
            raise PicohookError("the host is not running: use it inside `with`")
        if self._closed:
            raise PicohookError("the host is closed: use it inside its `with`, and make another one afterwards")
        self._host._mounted.require_own()  # noqa: SLF001 - the same object in two forms
        return self._portal.call(function, *arguments)

    def before_llm(self, request: LLMRequest | Mapping[str, Any]) -> Outcome[LLMRequest]:
        """See `Host.before_llm`."""
        return self._call(self._host.before_llm, request)  # type: ignore[no-any-return]

    def after_llm(self, response: LLMResponse | Mapping[str, Any]) -> Outcome[LLMResponse]:
        """See `Host.after_llm`."""
        return self._call(self._host.after_llm, response)  # type: ignore[no-any-return]

    def before_tool(self, call: ToolCall | Mapping[str, Any]) -> Outcome[ToolCall]:
        """See `Host.before_tool`."""
        return self._call(self._host.before_tool, call)  # type: ignore[no-any-return]

    def approve_tool(self, call: ToolCall | Mapping[str, Any]) -> Outcome[ToolCall]:
        """See `Host.approve_tool`."""
        return self._call(self._host.approve_tool, call)  # type: ignore[no-any-return]

    def after_tool(self, returned: ToolReturn | Mapping[str, Any]) -> Outcome[ToolReturn]:
        """See `Host.after_tool`."""
        return self._call(self._host.after_tool, returned)  # type: ignore[no-any-return]

    def before_prompt(self, prompt: Prompt | Mapping[str, Any]) -> Outcome[Prompt]:
        """See `Host.before_prompt`."""
        return self._call(self._host.before_prompt, prompt)  # type: ignore[no-any-return]

    def before_finish(self, finish: Finish | Mapping[str, Any]) -> Outcome[Finish]:
        """See `Host.before_finish`."""
        return self._call(self._host.before_finish, finish)  # type: ignore[no-any-return]

    def before_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """See `Host.before_compact`."""
        return self._call(self._host.before_compact, compaction)  # type: ignore[no-any-return]

    def after_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """See `Host.after_compact`."""
        return self._call(self._host.after_compact, compaction)  # type: ignore[no-any-return]

    def ask(self, stage: str, payload: Payload | Mapping[str, Any]) -> Outcome[Any]:
        """See `Host.ask`."""
        return self._call(self._host.ask, stage, payload)  # type: ignore[no-any-return]

    def decide(
        self,
        call: ToolCall | Mapping[str, Any],
        *,
        known: DecidedCall | None = None,
        on_pause: OnPause | None = None,
    ) -> DecidedCall:
        """See `Host.decide`. `on_pause` runs in the host's thread, and must not block."""
        return self._call(decide, self._host, call, None, known, on_pause)  # type: ignore[no-any-return]

    def conclude(self, decided: DecidedCall, result: Any, **ran: Unpack[ToolRun]) -> ToolResult:
        """See `Host.conclude`."""
        return self._call(partial(decided.conclude, result, **ran))  # type: ignore[no-any-return]

    def decide_llm(self, request: LLMRequest | Mapping[str, Any]) -> DecidedRequest:
        """See `Host.decide_llm`."""
        return self._call(decide_llm, self._host, request)  # type: ignore[no-any-return]

    def conclude_llm(self, decided: DecidedRequest, response: LLMResponse | Mapping[str, Any]) -> LLMResponse | None:
        """See `Host.conclude_llm`."""
        return self._call(decided.conclude, response)  # type: ignore[no-any-return]

    def run_tool(self, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
        """See `Host.run_tool`. The tool runs in a worker thread, so hooks are served while it blocks."""
        return self._call(run_tool, self._host, call, _in_thread(execute))  # type: ignore[no-any-return]

    def run_llm(
        self,
        request: LLMRequest | Mapping[str, Any],
        complete: Callable[[LLMRequest], Any],
        *,
        stream: Callable[[str], Any] | None = None,
    ) -> LLMResponse:
        """See `Host.run_llm`. `complete`, which may be a generator, and `stream` run in worker threads."""
        if stream is None:
            return self._call(run_llm, self._host, request, _in_thread(complete))  # type: ignore[no-any-return]
        return self._call(  # type: ignore[no-any-return]
            run_llm, self._host, request, _pieces_in_thread(complete), _in_thread(stream)
        )

    def emit(self, kind: str, payload: Mapping[str, Any] | None = None, **of: Unpack[EventOf]) -> None:
        """See `Host.emit`."""
        self._call(lambda: self._host.emit(kind, payload, **of))

    def emit_and_wait(self, kind: str, payload: Mapping[str, Any] | None = None, **of: Unpack[EventOf]) -> None:
        """See `Host.emit_and_wait`."""
        self._call(lambda: self._host.emit_and_wait(kind, payload, **of))

    def mount(self, hook: Hook | HookSpec) -> None:
        """See `Host.mount`."""
        self._call(self._host.mount, hook)

    def unmount(self, name: str) -> None:
        """See `Host.unmount`."""
        self._call(self._host.unmount, name)

    def reset(self, name: str) -> None:
        """See `Host.reset`."""
        self._call(self._host.reset, name)

    def restart(self, name: str) -> None:
        """See `Host.restart`."""
        self._call(self._host.restart, name)

    def reload(self) -> Reloaded:
        """See `Host.reload`."""
        return self._call(self._host.reload)  # type: ignore[no-any-return]

    def status(self) -> HostStatus:
        """See `Host.status`."""
        return self._call(self._host.status)  # type: ignore[no-any-return]


def _asks(stage: str) -> Callable[[BlockingHost, Any], Any]:
    def ask(self: BlockingHost, payload: Any) -> Any:
        return self._call(getattr(self._host, stage), payload)

    ask.__doc__ = f"See `Host.{stage}`."
    return ask


for _stage in STAGES.keys() - vars(BlockingHost).keys():  # the class spells out the others, for type checkers
    setattr(BlockingHost, _stage, _asks(_stage))


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
    from anyio.to_thread import run_sync  # noqa: PLC0415 - only where a function is given

    async def call(argument: Any) -> Any:
        # It is cancelled only when the program is interrupted: then the program does not wait for a tool that blocks.
        return await run_sync(function, argument, abandon_on_cancel=True)

    return call


def _pieces_in_thread(complete: Callable[[Any], Any]) -> Callable[[Any], AsyncIterator[Any]]:
    """A function that may be a generator, as an async generator. What another function returns is its only piece."""

    async def pieces(request: Any) -> AsyncIterator[Any]:
        answer = await _in_thread(complete)(request)
        if not hasattr(answer, "__next__"):
            yield answer
            return
        with closing(answer) if hasattr(answer, "close") else nullcontext():
            while (piece := await _in_thread(_next_of)(answer)) is not None:
                yield piece

    return pieces


def _next_of(pieces: Iterator[Any]) -> Any:
    return next(pieces, None)
