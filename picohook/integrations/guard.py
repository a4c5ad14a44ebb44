"""What the integrations have in common: a framework's run of an agent is a turn, and a tool call is decided on once."""

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
from ..turns.abort import AbortTurnError, HardAbortError
from ..turns.digest import call_digest
from ..turns.paused import PausedError
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
"""Bytes of a tool that an error shows."""


class Signal(BaseException):
    """Carries what a framework raises for its own ends through all that would take it for a failure of the tool."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(raised)
        self.raised = raised


_INSIDE: ContextVar[Guard | None] = ContextVar("picohook_inside", default=None)
"""The run whose tool runs here."""


def inside() -> Guard | None:
    """The guard of the run whose tool runs here; None outside of tools."""
    return _INSIDE.get()


class _Run(Session):
    """What the turn of a run belongs to. Given a session's host, it has that session's hooks, and is over when that is."""

    def __init__(self, host: Host, session_id: str, *, agent_id: str) -> None:
        super().__init__(host, session_id, agent_id=agent_id)
        if host.is_session_view:
            self._host = host


class Guard:
    """What hooks have a say in while a framework runs an agent. Its block is the turn, in the session of that id.

    An agent that runs inside a tool of another one has a sub-turn, in the session of that one.
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
        outer = inside()
        self.parent = outer if outer is not None and outer.host is host else None
        if self.parent is None:
            self.turn = _Run(host, session_id, agent_id=agent_id).turn(prompt, turn_id=turn_id)
        else:
            session = _Run(host, self.parent.turn.session.id, agent_id=agent_id)
            self.turn = session.turn(prompt, turn_id=turn_id, parent=self.parent.turn)
        self.ended: AbortTurnError | PausedError | None = None
        """What a hook ended the run with: nothing more is asked or run in it."""
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
        # A framework that runs tools at once may come to its end more than once, and then cancels whoever came first.
        # So the turn ends in a task of the host's, and everybody waits for that.
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

    def speaks(self, agent_id: str) -> None:
        """This agent has the word from now on, where agents hand off to each other."""
        if agent_id != self.turn.meta.agent_id:
            self.turn.meta = self.turn.meta.model_copy(update={"agent_id": agent_id})

    async def llm(
        self, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Mapping[str, Any]]]
    ) -> LLMResponse:
        """A model call: before_llm, the model, after_llm; `complete` may be called several times."""
        self._require_going()
        self._locks.clear()
        self._decided.clear()  # they were of the response before
        try:
            return await self.turn.llm(request, complete)
        except AbortTurnError as error:
            self.ended = error
            raise

    async def tool(
        self, call: ToolCall, execute: Callable[[ToolCall], Awaitable[T]], show: Callable[[T], ToolResult]
    ) -> T | ToolResult:
        """A tool call: before_tool, approve_tool, the tool, after_tool.

        Returns what the tool returned, or raises what it raised, where hooks left that as it is. Otherwise the
        `ToolResult` that hooks made of it. When it is called again for the same call, by a framework that tries again, hooks
        are asked about the new result only.
        """
        self._require_going()
        returned: list[T] = []
        raised: list[Exception] = []

        async def run(own: ToolCall) -> ToolResult:
            try:
                with self.around():
                    returned.append(await execute(own))
            except self._signals as error:
                raise Signal(error) from None
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
        except Signal as signal:
            not_run(self.host, call, "", type(signal.raised).__name__)
            raise signal.raised from None
        except AbortTurnError as error:
            self.ended = error
            raise
        if result != outcome.result or (
            raised and isinstance(raised[0], AbortTurnError)
        ):  # of an agent inside the tool
            return result
        if raised:
            raise raised[0]
        return returned[0]

    async def _decide(self, call: ToolCall) -> Decided:
        """What hooks decided on this call; they are asked once, unless it has become another call meanwhile.

        The digest is of the iteration too: an id that the next response has again is another call.
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
    def around(self) -> Iterator[None]:
        """An agent that runs in this block runs inside of this run.

        Raises what it was ended with for good, also where the framework made a text of it.
        """
        token = _INSIDE.set(self)
        try:
            yield
        finally:
            _INSIDE.reset(token)
        if isinstance(self.ended, HardAbortError | PausedError):
            raise self.ended

    def _require_going(self) -> None:
        if self.ended is not None:
            raise self.ended


def tool_call(name: str, arguments: Any, identity: str | None) -> ToolCall:
    """A call as hooks see it. Arguments that are no JSON object are shown as the text that they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    (call,) = calls_of({"tool_calls": [{"id": identity, "function": {"name": name, "arguments": text}}]})
    return call


def function_call(name: str, arguments: str, identity: str) -> Message:
    """A call in a message of the model's."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def function_tool(name: str, description: str | None, parameters: Mapping[str, Any]) -> Message:
    """A tool as it is offered to the model."""
    function = {"name": name, "description": description or "", "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def added(asked: Iterable[Message], edited: Iterable[Message]) -> list[Message]:
    """The functions that hooks added to the tools. Raises `PicohookError` for another kind of tool."""
    known = tool_names(asked)
    new = []
    for tool in edited:
        function = tool.get("function") or tool
        if tool in asked or function.get("name") in known:
            continue
        if not isinstance(function.get("name"), str) or tool.get("type", "function") != "function":
            raise PicohookError(
                f"a hook added a tool that is no function, and cannot be called here: {cut(str(tool), SHOWN)}"
            )
        new.append(function)
    return new


def restored(
    shown: Sequence[Message], own: Sequence[T], edited: Iterable[Message], make: Callable[[Message], T]
) -> list[T]:
    """What hooks left of what they were shown, as the framework has it: its own objects where nothing was changed."""
    left = list(zip(shown, own, strict=True))
    kept: list[T] = []
    for message in edited:
        place = next((place for place, (seen, _) in enumerate(left) if seen == message), None)
        kept.append(make(message) if place is None else left.pop(place)[1])
    return kept
