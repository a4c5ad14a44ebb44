"""`AgentRun`, the base of the integrations: a framework's run of an agent is a turn, and hooks decide on each call once."""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..engine.tool_ownership import tool_names
from ..errors import PicohookError
from ..model.conversation import calls_of
from ..model.payloads import ToolResult
from ..turns.abort import AbortTurnError, HardAbortError, PausedError
from ..turns.digest import call_digest
from ..turns.session import Session
from ..turns.tool_call import Decided, approve, conclude, execute_tool, not_run
from ..wire.text import cut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from ..engine.tasks import Service
    from ..host import Host
    from ..model.payloads import LLMRequest, LLMResponse, ToolCall

T = TypeVar("T")

Message = dict[str, Any]

SHOWN = 200
"""The most bytes of a tool that an error shows."""


class FrameworkSignal(BaseException):
    """Carries an exception that a framework uses as a signal past code that would treat it as a failure of the tool."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(raised)
        self.raised = raised


_CURRENT: ContextVar[AgentRun | None] = ContextVar("picohook_current_run", default=None)


def current_run() -> AgentRun | None:
    """Return the run whose tool runs in this context; None outside of tools."""
    return _CURRENT.get()


class _RunSession(Session):
    """The session of a run. If its host is that of a session, it has the hooks of that session, and ends with it."""

    def __init__(self, host: Host, session_id: str, *, agent_id: str) -> None:
        super().__init__(host, session_id, agent_id=agent_id)
        if host.is_session_view:
            self._host = host


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
    ) -> None:
        self.host = host
        outer = current_run()
        self.parent = outer if outer is not None and outer.host is host else None
        if self.parent is None:
            self.turn = _RunSession(host, session_id, agent_id=agent_id).turn(prompt, turn_id=turn_id)
        else:
            session = _RunSession(host, self.parent.turn.session.id, agent_id=agent_id)
            self.turn = session.turn(prompt, turn_id=turn_id, parent=self.parent.turn)
        self.ended: AbortTurnError | PausedError | None = None
        """The error with which a hook ended the run. After that, no hook, model or tool is called in the run."""
        self._signals: tuple[type[Exception], ...] = (*signals, PausedError)
        self._open = False
        self._ending: Service[None] | None = None
        self._locks: dict[str, anyio.Lock] = {}
        self._decided: dict[str, tuple[bytes, Decided]] = {}

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
            self._ending = self.host.begin_task(partial(self._end, kind, error, trace))
        if self._ending is not None:
            await self._ending.result()

    async def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.turn.__aexit__(kind, error, trace)
        if self.parent is not None:
            self.parent.turn.collect()  # the tool returns it
            if isinstance(error, HardAbortError | PausedError):
                self.parent.ended = self.parent.ended or error

    def set_agent(self, agent_id: str) -> None:
        """Set the id of the agent that runs from now on, after a handoff."""
        if agent_id != self.turn.meta.agent_id:
            self.turn.meta = self.turn.meta.model_copy(update={"agent_id": agent_id})

    async def llm(
        self, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Mapping[str, Any]]]
    ) -> LLMResponse:
        """Make a model call: before_llm, the model, after_llm. `complete` may be called several times.

        Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook ends the run.
        """
        self._require_open()
        self._locks.clear()
        self._decided.clear()  # these were about the previous response
        try:
            return await self.turn.llm(request, complete)
        except AbortTurnError as error:
            self.ended = error
            raise

    async def tool(
        self, call: ToolCall, execute: Callable[[ToolCall], Awaitable[T]], show: Callable[[T], ToolResult]
    ) -> T | ToolResult:
        """Make a tool call: before_tool, approve_tool, the tool, after_tool.

        Returns the tool's own result, or raises its own error, if hooks left it unchanged. Otherwise returns their
        `ToolResult`. Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook ends the run. When a framework tries
        the same call again, hooks are asked about the new result only.
        """
        self._require_open()
        returned: list[T] = []
        raised: list[Exception] = []

        async def run(own: ToolCall) -> ToolResult:
            try:
                with self.inside_tool():
                    returned.append(await execute(own))
            except self._signals as error:
                raise FrameworkSignal(error) from None
            except Exception as error:
                raised.append(error)
                raise
            return show(returned[0])

        call = call.model_copy(update={"meta": self.turn.meta.model_copy(update={"source": "turn.tool"})})
        try:
            decided = await self._decide(call)
            if decided.result is not None:
                return decided.result
            outcome = await execute_tool(self.host, decided, run)
            if isinstance(outcome, ToolResult):
                return outcome
            result = await conclude(self.host, outcome, self.turn.take)
        except FrameworkSignal as signal:
            not_run(self.host, call, "", type(signal.raised).__name__)
            raise signal.raised from None
        except AbortTurnError as error:
            self.ended = error
            raise
        inner_ended = bool(raised) and isinstance(raised[0], AbortTurnError)
        if inner_ended or result != outcome.result:
            return result
        if raised:
            raise raised[0]
        return returned[0]

    async def _decide(self, call: ToolCall) -> Decided:
        """Return the decision of hooks on this call. They are asked once, and again if the call has changed since.

        The digest includes the iteration: the same id in the next response is another call.
        """
        identity, digest = call.tool_call_id, call_digest(call)
        if not identity:
            return await self._ask(call)
        async with self._locks.setdefault(identity, anyio.Lock()):
            known = self._decided.get(identity)
            if known is None or known[0] != digest:
                self._decided[identity] = known = digest, await self._ask(call)
            return known[1]

    async def _ask(self, call: ToolCall) -> Decided:
        before = await self.host.before_tool(call)
        self.turn.take(before)
        return await approve(self.host, before, self.turn.take)

    @contextmanager
    def inside_tool(self) -> Iterator[None]:
        """Make this the current run of the block, so that an agent in it gets a sub-turn.

        If the inner run ended with `HardAbortError` or `PausedError`, raises it, even if the framework turned it into text.
        """
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
        if isinstance(self.ended, HardAbortError | PausedError):
            raise self.ended

    def _require_open(self) -> None:
        if self.ended is not None:
            raise self.ended


# Converts messages, calls and tools to the form that hooks see, and back to objects of a framework.


def tool_call(name: str, arguments: Any, identity: str | None) -> ToolCall:
    """Return a call as hooks see it. Arguments that are not a JSON object are shown as text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    (call,) = calls_of({"tool_calls": [{"id": identity, "function": {"name": name, "arguments": text}}]})
    return call


def function_call(name: str, arguments: str, identity: str) -> Message:
    """Return a call as part of a message of the model."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def function_tool(name: str, description: str | None, parameters: Mapping[str, Any]) -> Message:
    """Return a tool as it is offered to the model."""
    function = {"name": name, "description": description or "", "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def added_functions(asked: Iterable[Message], edited: Iterable[Message]) -> list[Message]:
    """Return the functions that hooks added to the tools. Raises `PicohookError` for another kind of tool."""
    known = tool_names(asked)
    new = []
    for tool in edited:
        function = tool.get("function") or tool
        if tool in asked or function.get("name") in known:
            continue
        if not isinstance(function.get("name"), str) or tool.get("type", "function") != "function":
            raise PicohookError(
                f"{cut(str(tool), SHOWN)}: a hook added this tool, and only functions can be added here"
            )
        new.append(function)
    return new


def rebuilt(
    shown: Sequence[Message], own: Sequence[T], edited: Iterable[Message], make: Callable[[Message], T]
) -> list[T]:
    """Return the edited messages as objects of the framework. An unchanged message is the framework's own object."""
    left = list(zip(shown, own, strict=True))
    objects: list[T] = []
    for message in edited:
        index = next((index for index, (seen, _) in enumerate(left) if seen == message), None)
        objects.append(make(message) if index is None else left.pop(index)[1])
    return objects
