"""Hooks for LangChain agents: `create_agent(model, tools, middleware=[..., PicohookMiddleware(host)])`.

Last in the list it is next to the model and the tools, so that what hooks approve is what runs. A run of the agent is a turn.
"""

from __future__ import annotations

from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar
from uuid import uuid4

from pydantic_core import to_jsonable_python

from ..errors import PicohookError
from ..model.payloads import LLMRequest, ToolResult
from ..turns.abort import AbortTurnError
from . import extra
from .guard import Guard, Message, inside, restored, tool_call

with extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import ModelResponse, PrivateStateAttr
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        convert_to_openai_messages,
    )
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config
    from langchain_core.tools import BaseTool
    from langchain_core.tracers.context import register_configure_hook
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from langchain.agents.middleware.types import ModelRequest, ToolCallRequest
    from langgraph.runtime import Runtime

    from ..host import Host
    from ..model.payloads import ToolCall

    Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ToolHandler = Callable[[ToolCallRequest], Awaitable["ToolMessage | Command[Any]"]]

RUNS = 1024
"""Runs that are remembered. One that waits for an answer to an interrupt longer than that is not told of its end."""

UNSAID = "This answer was changed."
MODEL_NODE = "model"
"""What `create_agent` calls the node that asks the model."""

T = TypeVar("T")


class _Graphs(BaseCallbackHandler):
    """Hears of every graph that fails. No middleware does, unless the graph fails in it."""

    run_inline = True

    def __init__(self) -> None:
        self.guards: dict[UUID, Guard] = {}
        """By the graph that runs."""
        self._graphs: dict[UUID, UUID] = {}
        """By its node that runs."""
        self._parents: dict[UUID, UUID] = {}
        """Of what runs in a graph: what it runs in."""
        self._handed_over: set[UUID] = set()
        """The graphs in which an agent that asks hooks has handed off to another."""

    def here(self, guard: Guard) -> None:
        """What runs here is guarded by this."""
        node = _node()
        if node in self._graphs:
            self.guards[self._graphs[node]] = guard

    def is_node(self, run_id: UUID | None) -> bool:
        """Whether this is a node of a graph that runs, and not what a node or a tool calls."""
        return run_id in self._graphs

    def handed_over(self) -> None:
        """The agent that runs here hands off to another node of the graph that it is in."""
        node = _node()
        graph = None if node is None else self._graphs.get(node)
        around = [run for run in self._around(graph) if run in self._graphs]
        if around:
            self._handed_over.add(self._graphs[around[0]])

    def was_handed_over_to(self, node: UUID) -> bool:
        """Whether this node is of an agent that runs since another one handed off to it."""
        return any(run in self._handed_over for run in self._around(node))

    def _around(self, run: UUID | None) -> Iterator[UUID]:
        while run is not None and (run := self._parents.get(run)) is not None:
            yield run

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        node = (more.get("metadata") or {}).get("langgraph_node")  # what runs inside of a node has it, too
        if parent_run_id is None or node is None:
            return
        self._parents[run_id] = parent_run_id
        if more.get("name") == node:
            self._graphs[run_id] = parent_run_id

    def on_chain_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self._forget(run_id)
        self.guards.pop(run_id, None)  # at its end, or at an interrupt, after which another one goes on

    def _forget(self, run_id: UUID) -> None:
        self._graphs.pop(run_id, None)
        self._parents.pop(run_id, None)
        self._handed_over.discard(run_id)

    async def on_chain_error(
        self, error: BaseException, *, run_id: UUID, **__: Any
    ) -> None:  # awaited where it is async
        self._forget(run_id)
        guard = self.guards.pop(run_id, None)
        if guard is not None and not isinstance(error, GraphBubbleUp):
            await guard.__aexit__(type(error), error, error.__traceback__)


_GRAPHS = _Graphs()
_ASKED: ContextVar[UUID | None] = ContextVar("picohook_asked", default=None)
"""The node that makes the call here about which hooks were asked."""


class _Refusal(BaseCallbackHandler):
    """Refuses what an agent does that asks no hooks, and runs inside a guarded tool or was handed off to by a guarded agent.

    Nothing can make it ask them: its graph is made.
    """

    run_inline = True
    raise_error = True

    def on_chat_model_start(
        self, *_: Any, parent_run_id: UUID | None = None, metadata: Mapping[str, Any] | None = None, **__: Any
    ) -> None:
        if (metadata or {}).get("langgraph_node") == MODEL_NODE:
            self._require_asked("the model", parent_run_id, metadata)

    def on_tool_start(
        self,
        serialized: Mapping[str, Any],
        *_: Any,
        parent_run_id: UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        **__: Any,
    ) -> None:
        self._require_asked(f"the tool {serialized.get('name')}", parent_run_id, metadata)

    @staticmethod
    def _require_asked(called: str, node: UUID | None, metadata: Mapping[str, Any] | None) -> None:
        if node is None or node == _ASKED.get() or not _GRAPHS.is_node(node):
            return
        outer = inside()
        if outer is None and not _GRAPHS.was_handed_over_to(node):
            return
        name = (metadata or {}).get("lc_agent_name")
        named = f" {name}" if name and (outer is None or name != outer.turn.meta.agent_id) else ""
        where = "after a handoff" if outer is None else "inside a tool"
        raise PicohookError(
            f"the agent{named} that runs {where} would call {called}, and no hook was asked: "
            "give it a PicohookMiddleware of its own"
        )


for _handler in (_GRAPHS, _Refusal()):
    register_configure_hook(ContextVar(f"picohook_{type(_handler).__name__}", default=_handler), inheritable=True)


def _node() -> UUID | None:
    """The node that runs here."""
    return getattr(ensure_config().get("callbacks"), "parent_run_id", None)


async def _asked_for(call: Awaitable[T]) -> T:
    """What this comes to, where hooks were asked about it."""
    token = _ASKED.set(_node())
    try:
        return await call
    finally:
        _ASKED.reset(token)


class PicohookState(AgentState[Any]):
    """What goes with a run, also into its checkpoints: which turn it is."""

    picohook_turn: NotRequired[Annotated[str, PrivateStateAttr]]


class PicohookMiddleware(AgentMiddleware[PicohookState, Any, Any]):
    """Asks the host's hooks about every model call and every tool call of an agent. Its host has to be running.

    It is for `ainvoke` and `astream`: hooks are awaited.
    """

    state_schema = PicohookState

    def __init__(self, host: Host, *, agent_id: str = "") -> None:
        super().__init__()
        self.tools = []
        self._host = host
        self._agent_id = agent_id
        self._guards: OrderedDict[str, Guard] = OrderedDict()

    # The turn.

    async def abefore_agent(self, state: PicohookState, runtime: Runtime[Any]) -> dict[str, Any]:
        del runtime
        turn_id = uuid4().hex
        said = next((message.text for message in reversed(state["messages"]) if message.type == "human"), "")
        await self._guard(turn_id, said).__aenter__()
        return {"picohook_turn": turn_id}

    async def aafter_agent(self, state: PicohookState, runtime: Runtime[Any]) -> None:
        del runtime
        guard = self._guards.pop(state.get("picohook_turn", ""), None)
        if guard is not None:
            await guard.__aexit__(None, None, None)

    def _guard(self, turn_id: str, prompt: str = "") -> Guard:
        """The guard of a run. One that another process began, or that is long ago, gets a new one."""
        guard = self._guards.get(turn_id)
        if guard is None:
            config = ensure_config()
            thread = str(config.get("configurable", {}).get("thread_id") or turn_id)
            agent_id = self._agent_id or config.get("metadata", {}).get("lc_agent_name") or ""
            guard = Guard(self._host, thread, prompt, agent_id=agent_id, turn_id=turn_id, signals=(GraphBubbleUp,))
        if turn_id:  # it has none outside of an agent: then nothing goes from one question to the next
            self._guards[turn_id] = guard
            self._guards.move_to_end(turn_id)
            _GRAPHS.here(guard)
        if len(self._guards) > RUNS:
            self._guards.popitem(last=False)
        return guard

    # The model.

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        guard = self._guard(_turn_of(request.state))
        asked = _request(request)
        responses: list[ModelResponse[Any]] = []

        async def complete(edited: LLMRequest) -> Mapping[str, Any]:
            responses.append(await _unseen(handler, _edited(edited, asked, request)))
            return _shown(responses[-1])

        try:
            said = (await guard.llm(asked, complete)).response
        except AbortTurnError as error:
            await guard.__aexit__(type(error), error, error.__traceback__)
            raise
        if not responses:
            return ModelResponse(result=[_answered(AIMessage(""), said)])
        response = responses[-1]
        if said == _shown(response):
            return response
        # What was read out of an answer for `response_format` is not what it says any more.
        place, answer = _answer(response)
        unsaid = [message.model_copy(update={"content": UNSAID}) for message in response.result[place + 1 :]]
        return ModelResponse(result=[*response.result[:place], _answered(answer, said), *unsaid])

    # Tools.

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        guard = self._guard(_turn_of(request.state))
        name, identity = request.tool_call["name"], request.tool_call["id"] or ""
        call = tool_call(name, request.tool_call["args"], identity)
        returned: list[ToolMessage | Command[Any]] = []

        async def execute(own: ToolCall) -> ToolMessage | Command[Any]:
            asked = request
            if own.tool != name:
                return ToolMessage(f"there is no tool {own.tool}", tool_call_id=identity, name=name, status="error")
            if own.arguments != tool_call(name, request.tool_call["args"], identity).arguments:
                asked = request.override(tool_call={**request.tool_call, "args": own.arguments})
            returned.append(await _asked_for(handler(asked)))
            if _hands_off(returned[-1]):
                _GRAPHS.handed_over()
            return returned[-1]

        def show(value: ToolMessage | Command[Any]) -> ToolResult:
            told = _told(value, identity)
            return ToolResult() if told is None else ToolResult(for_llm=told.text, is_error=told.status == "error")

        try:
            ended = await guard.tool(call, execute, show)
        except AbortTurnError as error:
            await guard.__aexit__(type(error), error, error.__traceback__)
            raise
        if not isinstance(ended, ToolResult):
            return ended
        status = "error" if ended.is_error else "success"
        said = ToolMessage(ended.for_llm, tool_call_id=identity, name=name, status=status)
        return _retold(returned[-1], said) if returned else said


def _turn_of(state: Any) -> str:
    turn_id: str = state.get("picohook_turn", "")
    return turn_id


async def _unseen(handler: Callable[[T], Awaitable[ModelResponse[Any]]], request: T) -> ModelResponse[Any]:
    """What the model says, before anybody is shown it: the graph streams the message that hooks leave."""
    config = ensure_config()
    token = var_child_runnable_config.set({**config, "tags": [*config.get("tags", ()), TAG_NOSTREAM]})
    try:
        return await _asked_for(handler(request))
    finally:
        var_child_runnable_config.reset(token)


def _request(request: ModelRequest[Any]) -> LLMRequest:
    return LLMRequest(
        model=str(
            getattr(request.model, "model_name", None)
            or getattr(request.model, "model", None)
            or request.model.name
            or ""
        ),
        messages=_messages(request.messages),
        tools=[_tool(tool) for tool in request.tools],
        options=to_jsonable_python(_own_settings(request.model) | request.model_settings, fallback=str),
        system_prompt=request.system_message.text if request.system_message else None,
    )


def _own_settings(model: Any) -> dict[str, Any]:
    """What the model was made with, and asks with where the request says nothing else."""
    own = {name: getattr(model, name, None) for name in ("temperature", "max_tokens")}
    return {name: value for name, value in own.items() if isinstance(value, int | float)}


def _edited(edited: LLMRequest, asked: LLMRequest, request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request as hooks left it; what they did not change is what it was."""
    changes: dict[str, Any] = {}
    if edited.messages != asked.messages:
        changes["messages"] = restored(asked.messages, request.messages, edited.messages, _made)
    if edited.system_prompt != asked.system_prompt:
        changes["system_message"] = SystemMessage(edited.system_prompt) if edited.system_prompt else None
    if edited.tools != asked.tools:
        changes["tools"] = restored(
            asked.tools, request.tools, edited.tools, dict
        )  # one that is added is offered as it is
    if edited.options != asked.options:
        same = {key: value for key, value in request.model_settings.items() if key in edited.options}
        changed = {key: value for key, value in edited.options.items() if asked.options.get(key) != value}
        changes["model_settings"] = {**same, **changed}
    return request.override(**changes) if changes else request


def _tool(tool: BaseTool | dict[str, Any]) -> Message:
    return convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool


def _messages(messages: Sequence[BaseMessage]) -> list[Message]:
    return [_message(message) for message in messages]


def _message(message: BaseMessage) -> Message:
    shown = convert_to_openai_messages(message)
    assert isinstance(shown, dict)
    return shown


def _made(message: Message) -> Any:
    (made,) = convert_to_messages([message])
    return made


def _answer(response: ModelResponse[Any]) -> tuple[int, AIMessage]:
    """What the model said, and where it is; behind it may be what the framework adds about structured output."""
    return next((place, message) for place, message in enumerate(response.result) if isinstance(message, AIMessage))


def _shown(response: ModelResponse[Any]) -> Message:
    shown = _message(_answer(response)[1])
    return {key: value for key, value in shown.items() if key != "role"}


def _answered(message: AIMessage, said: Mapping[str, Any]) -> AIMessage:
    """The message as hooks left it; what they did not change is what it was."""
    shown = _message(message)
    made = _made({"content": "", **said, "role": "assistant"})
    changes: dict[str, Any] = {}
    if said.get("content") != shown.get("content"):
        changes["content"] = made.content
    if (said.get("tool_calls") or []) != shown.get("tool_calls", []):
        others = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
        changes |= {"tool_calls": made.tool_calls, "invalid_tool_calls": made.invalid_tool_calls}
        changes["additional_kwargs"] = others
    return message.model_copy(update=changes)


def _hands_off(value: Any) -> bool:
    """Whether what a tool returned lets another agent go on."""
    if isinstance(value, list):
        return any(map(_hands_off, value))
    return isinstance(value, Command) and value.graph == Command.PARENT and bool(value.goto)


def _told(value: Any, identity: str) -> ToolMessage | None:
    """What the model is told of a call, in what its tool returned."""
    if isinstance(value, ToolMessage):
        return value if value.tool_call_id == identity else None
    if isinstance(value, Command) and isinstance(value.update, dict):
        value = value.update.get("messages")
    parts = value if isinstance(value, list) else ()
    return next(filter(None, (_told(part, identity) for part in parts)), None)


def _retold(value: Any, said: ToolMessage) -> Any:
    """What a tool returned, with the model told something else."""
    if isinstance(value, ToolMessage) and value.tool_call_id == said.tool_call_id:
        return value.model_copy(update={"content": said.content, "status": said.status, "artifact": None})
    if isinstance(value, list):
        return [_retold(part, said) for part in value]
    if isinstance(value, Command) and isinstance(value.update, dict):
        messages = _retold(value.update.get("messages"), said)
        return replace(value, update={**value.update, "messages": messages})
    return value
