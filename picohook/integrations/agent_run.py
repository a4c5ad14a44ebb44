"""`AgentRun`, the base of the integrations: a framework's run of an agent is a turn, and hooks decide on each call once."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .. import AbortTurnError, HardAbortError, PausedError, PicohookError, Session, ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
    from types import TracebackType
    from typing import Self

    from .. import DecidedCall, DecidedRequest, Decision, Host, LLMRequest, Outcome, ToolCall, Turn

    OnPause = Callable[[Outcome[ToolCall]], Decision]

T = TypeVar("T")

_CURRENT: ContextVar[AgentRun | None] = ContextVar("picohook_current_run", default=None)


@contextmanager
def having(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable this value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def require_named(part: str, why: str, unguarded: Collection[str]) -> None:
    """Refuse a part of an agent that asks no hooks. Raises `PicohookError` unless `unguarded` names it."""
    if part not in unguarded:
        raise PicohookError(f"{part}: {why}: leave it out, or run it without hooks by `unguarded=[{part!r}]`")


async def settle(host: Host, call: ToolCall, decided: DecidedCall) -> ToolResult | None:
    """Returns the result of a call that is not made: that of hooks, or an error if a hook moved it to another tool."""
    if decided.result is None and decided.call.tool != call.tool:
        return await host.conclude(decided, ToolResult(for_llm=f"unknown tool {decided.call.tool}", is_error=True))
    return decided.result


def current_run() -> AgentRun | None:
    """Returns the run whose tool runs in this context; None outside of tools."""
    return _CURRENT.get()


class AgentRun:
    """One run of an agent by a framework. Its block is a turn in this session.

    An agent inside a tool of another agent has a sub-turn in the session of that agent.
    """

    def __init__(
        self,
        host: Host,
        session_id: str,
        prompt: str = "",
        *,
        agent_id: str = "",
        turn_id: str | None = None,
        signals: tuple[type[Exception], ...] = (),
        unguarded: Collection[str] = (),
    ) -> None:
        self.host = host
        outer = current_run()
        self.parent = outer if outer is not None and outer.host is host else None
        outer_turn = None if self.parent is None else self.parent.turn
        name = session_id if outer_turn is None else outer_turn.session.id
        self.turn: Turn = Session(host, name, agent_id=agent_id, shared=True).turn(
            prompt, turn_id=turn_id, parent=outer_turn
        )
        self.unguarded: Collection[str] = unguarded
        """The names of the parts that may run without hooks."""
        self.ended: PicohookError | None = None
        """The error that ended the run. After that, no hook, model or tool is called in the run."""
        self.stopped = False
        """Whether the last model call or tool was stopped from outside: cancelled, or its stream is not read to the end."""
        self._signals: tuple[type[Exception], ...] = (*signals, PausedError)
        self._open = False
        self._ending: Callable[[], Awaitable[None]] | None = None
        self._decided: dict[tuple[str, str | None], DecidedCall] = {}
        self._ahead: dict[str, tuple[ToolCall, DecidedCall]] = {}
        self.paused: dict[str, Outcome[ToolCall]] = self.parent.paused if self.parent is not None else {}
        """The outcomes of the calls that wait for a person, by call id: also those of the runs inside tools."""
        self.waited: set[str] = set()
        """The ids of the calls that a person has been asked about before this run, which continues another."""

    async def __aenter__(self) -> Self:
        await self.turn.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A framework that runs tools concurrently may end a run more than once, and cancels the first attempt.
        # So a task of the host ends the turn, and every attempt waits for that task.
        if self._open:
            self._open = False
            self._ending = self.host.begin_task(partial(self._end, kind, error, trace)).result
        if self._ending is not None:
            await self._ending()

    async def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget_ahead()
        await self.turn.__aexit__(kind, error, trace)
        if self.parent is not None:
            self.parent.turn.collect()  # the tool returns it
            if isinstance(error, HardAbortError | PausedError):
                self.parent.ended = self.parent.ended or error

    def set_agent(self, agent_id: str) -> None:
        """Set the id of the agent that runs from now on, after a handoff."""
        if agent_id != self.turn.meta.agent_id:
            self.turn.meta = self.turn.meta.model_copy(update={"agent_id": agent_id})

    @asynccontextmanager
    async def model_call(self, request: LLMRequest) -> AsyncIterator[DecidedRequest]:
        """Decide on a model call, and make it in this block, in as many rounds as hooks ask for.

        Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook ends the run, also in the block.
        """
        if self.ended is not None:
            raise self.ended
        self.stopped = False
        self._decided.clear()  # these were about the previous response
        self.waited.clear()
        self._forget_ahead()
        try:
            decided = await self.turn.decide_llm(request)
            try:
                yield decided
            except BaseException as error:
                self._note(error)
                decided.operation.failed(error)
                raise
            finally:
                decided.operation.ended()
        except AbortTurnError as error:
            self.ended = error
            raise

    async def pauses(self, call: ToolCall) -> bool:
        """Ask hooks about a call before the framework makes it. Returns whether one paused: `paused` has the outcome.

        Any other decision is kept for `tool`, which raises the error if a hook ended the run.
        """
        identity = call.tool_call_id
        if not self._open or self.ended is not None or not identity:
            return False
        try:
            self._ahead[identity] = call, await self.turn.decide(call)
        except PausedError as paused:
            self.paused[identity] = paused.outcome
            return True
        except AbortTurnError as error:
            self.ended = error
        return False

    def _forget_ahead(self) -> None:
        """End the calls that hooks decided on and the framework never made."""
        for call, decided in self._ahead.values():
            if decided.result is None:
                decided.operation.ended()
                self.host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": "the call was not made"}, about=call)
        self._ahead.clear()

    async def tool(
        self,
        shown: Callable[[], ToolCall],
        execute: Callable[[dict[str, Any] | None], Awaitable[T]],
        show: Callable[[T], ToolResult],
        on_pause: OnPause | None = None,
        *,
        agent_id: str | None = None,
    ) -> T | ToolResult:
        """Make a tool call: before_tool, approve_tool, the tool, after_tool.

        `shown` returns the call as the framework has it by now. `execute` gets the arguments of hooks, or None if they left
        those of the framework. A call that a hook moved to another tool is an error.

        Returns the tool's own result, or raises its own error, if hooks left it unchanged. Otherwise returns their
        `ToolResult`. Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook ends the run. When a framework tries
        the same call again, hooks are asked about the new result only. `on_pause` is as at `Host.decide`. `agent_id` is the
        agent that makes the call, where several agents run at the same time.
        """
        if self.ended is not None:
            raise self.ended
        try:
            call = shown()
            decided = await self._decide(call, on_pause, agent_id)
            if (settled := await settle(self.host, call, decided)) is not None:
                return settled
            own = decided.call
            raised: Exception | None = None
            try:
                with self.inside_tool(), decided.operation.current():
                    returned = await execute(None if own.arguments == shown().arguments else own.arguments)
                result: ToolResult | Exception = show(returned)
            except self._signals as signal:
                decided.operation.failed(signal)
                self.host.emit("tool_exec_skipped", {"Tool": own.tool, "Reason": type(signal).__name__}, about=own)
                raise
            except Exception as error:  # a tool can fail in any way
                result = raised = error
            left = await self.host.conclude(decided, result)
        except AbortTurnError as error:
            self.ended = error
            raise
        if isinstance(raised, AbortTurnError) or decided.outcomes[-1].action == "modify":
            return left
        if raised is not None:
            raise raised
        return returned

    async def _decide(self, call: ToolCall, on_pause: OnPause | None, agent_id: str | None) -> DecidedCall:
        """Returns the decision of hooks on this call. They are asked once, and again if the call has changed since."""
        identity = call.tool_call_id or ""
        if agent_id is not None:
            self.set_agent(agent_id)  # the turn reads it before anything else runs
        if identity in self._ahead and self._ahead[identity][0] == call:
            _, decided = self._ahead.pop(identity)
        else:
            decided = await self.turn.decide(call, known=self._decided.get((identity, agent_id)), on_pause=on_pause)
        if identity:
            self._decided[identity, agent_id] = decided
        return decided

    @contextmanager
    def inside_tool(self) -> Iterator[None]:
        """Make this the current run of the block, so that an agent in it gets a sub-turn.

        If the inner run ended with `HardAbortError` or `PausedError`, raises it, even if the framework turned it into text.
        """
        try:
            with having(_CURRENT, self):
                yield
        except BaseException as error:
            self._note(error)
            raise
        if isinstance(self.ended, HardAbortError | PausedError):
            raise self.ended

    def _note(self, error: BaseException) -> None:
        self.stopped = not isinstance(error, Exception)
