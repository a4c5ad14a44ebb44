"""Hooks for LangChain agents: `create_agent(model, tools, middleware=[..., PicohookMiddleware(host)])`.

Put it last in the list: it is then next to the model and the tools, and nothing changes a call after its approval. A run of the
agent is a turn.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar
from uuid import uuid4

from pydantic_core import to_jsonable_python

from .. import AbortTurnError, Continue, Deny, LLMRequest, PausedError, PicohookError, ToolResult
from . import extra
from .agent_run import AgentRun, having, require_named
from .chat import Message, edited_settings, rebuilt, tool_call
from .langchain_graphs import GRAPHS, asked_for

with extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.human_in_the_loop import ActionRequest, HITLRequest, ReviewConfig
    from langchain.agents.middleware.types import ModelResponse, PrivateStateAttr
    from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        convert_to_openai_messages,
    )
    from langchain_core.outputs import ChatGenerationChunk, LLMResult
    from langchain_core.runnables.config import ensure_config, var_child_runnable_config
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command, interrupt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
    from uuid import UUID

    from langchain.agents.middleware.types import ModelRequest, ToolCallRequest
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun

    from .. import Decision, Host, Outcome, ResponseStream, ToolCall

    Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ToolHandler = Callable[[ToolCallRequest], Awaitable["ToolMessage | Command[Any]"]]

RUNS = 1024
"""The number of runs that are remembered. A run that an interrupt holds for longer gets no turn_end."""

REPLACED = "This answer was changed."
T = TypeVar("T")


class PicohookState(AgentState[Any]):
    """The state of a run, also in its checkpoints: the id of its turn."""

    picohook_turn: NotRequired[Annotated[str, PrivateStateAttr]]


class PicohookMiddleware(AgentMiddleware[PicohookState, Any, Any]):
    """Asks the host's hooks about every model call and every tool call of an agent. Its host has to be running.

    Run the agent with `ainvoke` or `astream`: hooks are awaited. `unguarded` names what may run without hooks: a middleware
    that asks a model by itself, or a tool that runs at the provider. Another one is refused.
    """

    state_schema = PicohookState

    def __init__(self, host: Host, *, agent_id: str = "", unguarded: Collection[str] = ()) -> None:
        super().__init__()
        self._unguarded = unguarded
        self.tools = []
        self._host = host
        self._agent_id = agent_id
        self._runs: OrderedDict[str, AgentRun] = OrderedDict()

    # The turn.

    async def abefore_agent(self, state: PicohookState, *_: Any) -> dict[str, Any]:
        begun = {"picohook_turn": uuid4().hex}
        prompt = next((message.text for message in reversed(state["messages"]) if message.type == "human"), "")
        await self._run(begun, prompt).__aenter__()
        return begun

    def before_agent(self, *_: Any) -> dict[str, Any]:
        """Refuse a synchronous run. Raises `PicohookError`."""
        raise PicohookError(
            "PicohookMiddleware cannot ask hooks in `invoke` or `stream`: write `await agent.ainvoke(...)` or"
            " `async for chunk in agent.astream(...)`"
        )

    async def aafter_agent(self, state: PicohookState, *_: Any) -> None:
        run = self._runs.pop(state.get("picohook_turn", ""), None)
        if run is not None:
            await run.__aexit__(None, None, None)

    def _run(self, state: Any, prompt: str = "") -> AgentRun:
        """Returns the run of this turn. Makes a new one if another process began the turn, or too many runs came since."""
        turn_id: str = state.get("picohook_turn", "")
        run = self._runs.get(turn_id)
        if run is None:
            config = ensure_config()
            thread = str(config.get("configurable", {}).get("thread_id") or turn_id)
            agent_id = self._agent_id or config.get("metadata", {}).get("lc_agent_name") or ""
            run = AgentRun(
                self._host,
                thread,
                prompt,
                agent_id=agent_id,
                turn_id=turn_id,
                signals=(GraphBubbleUp,),
                unguarded=self._unguarded,
            )
        if turn_id:  # outside of an agent there is no turn, and each call has a run of its own
            self._runs[turn_id] = run
            self._runs.move_to_end(turn_id)
            GRAPHS.here(run)
        if len(self._runs) > RUNS:
            self._runs.popitem(last=False)
        return run

    # The model.

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        run = self._run(request.state)
        for name in _hosted(request):
            require_named(name, "this tool runs at the provider, and asks no hook", self._unguarded)
        shown = _request_of(request)
        response: ModelResponse[Any] = ModelResponse(result=[AIMessage("")])  # of hooks, if the model is not asked
        held: _HeldAnswer | None = None

        try:
            async with run.model_call(shown) as decided:
                while decided.response is None:
                    stream = decided.stream()
                    held = None if stream.unguarded else _HeldAnswer(stream)
                    call = asked_for if held is None else held.read
                    response = await call(handler(_with_edits(decided.request, shown, request)))
                    await stream.conclude(_shown_answer(response))
            final = decided.response.response
        except AbortTurnError as error:
            await run.__aexit__(type(error), error, error.__traceback__)
            raise
        index, answer = _find_answer(response)
        if final != _shown_answer(response):
            # The structured answer was read from the text that hooks changed.
            answer = _with_answer(answer, final)
            replaced = [message.model_copy(update={"content": REPLACED}) for message in response.result[index + 1 :]]
            response = ModelResponse(result=[*response.result[:index], answer, *replaced])
        if held is not None:
            await held.finish(answer)
        return response

    # Tools.

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        run = self._run(request.state)
        name, identity = request.tool_call["name"], request.tool_call["id"] or ""
        returned: list[ToolMessage | Command[Any]] = []

        def shown() -> ToolCall:
            return tool_call(name, request.tool_call["args"], identity)

        async def execute(edited: dict[str, Any] | None) -> ToolMessage | Command[Any]:
            changed = (
                request.override(tool_call={**request.tool_call, "args": edited}) if edited is not None else request
            )
            returned.append(await asked_for(handler(changed)))
            if _hands_off(returned[-1]):
                GRAPHS.handed_over()
            return returned[-1]

        def show(value: ToolMessage | Command[Any]) -> ToolResult:
            told = _find_tool_message(value, identity)
            return ToolResult() if told is None else ToolResult(for_llm=told.text, is_error=told.status == "error")

        try:
            ended = await run.tool(shown, execute, show, _interrupted)
        except AbortTurnError as error:
            await run.__aexit__(type(error), error, error.__traceback__)
            raise
        if not isinstance(ended, ToolResult):
            return ended
        status = "error" if ended.is_error else "success"
        message = ToolMessage(ended.for_llm, tool_call_id=identity, name=name, status=status)
        return _replace_tool_message(returned[-1], message) if returned else message


def _interrupted(outcome: Outcome[ToolCall]) -> Decision:
    """Interrupt the graph. Returns the person's decision in place of the hook that paused.

    The interrupt and its answer have the form of LangChain's own `HumanInTheLoopMiddleware`. Raises `PausedError` if the graph
    has no checkpointer, and so cannot be resumed.
    """
    if not ensure_config().get("configurable", {}).get("__pregel_checkpointer"):
        raise PausedError(outcome)
    call = outcome.payload
    action = ActionRequest(name=call.tool, args=call.arguments, description=outcome.reason or f"{outcome.hook} asks")
    review = ReviewConfig(action_name=call.tool, allowed_decisions=["approve", "reject"])
    answer = interrupt(HITLRequest(action_requests=[action], review_configs=[review]))
    try:
        (decision,) = answer["decisions"]
        if decision["type"] == "approve":
            return Continue()
        reason = str(decision.get("message") or "a person rejected the call") if decision["type"] == "reject" else ""
    except (AttributeError, KeyError, TypeError, ValueError):
        reason = ""
    return Deny(reason or 'the answer was neither {"decisions": [{"type": "approve"}]} nor a rejection')


class _HeldAnswer(AsyncCallbackHandler):
    """Reads the pieces of one answer, which the graph does not stream, and streams the text that hooks let pass."""

    run_inline = True
    raise_error = True

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._read: UUID | None = None
        self._manager: Any = None
        self._shown: AsyncCallbackManagerForLLMRun | None = None

    async def read(self, call: Awaitable[T]) -> T:
        """Await a call of the model. The graph streams nothing of its answer by itself."""
        config = ensure_config()
        self._manager = config.get("callbacks")
        hidden: Any = {**config, "tags": [*config.get("tags", ()), TAG_NOSTREAM]}
        if isinstance(self._manager, AsyncCallbackManager):
            hidden["callbacks"] = self._manager.copy()
            hidden["callbacks"].add_handler(self)
        try:
            with having(var_child_runnable_config, hidden):
                return await asked_for(call)
        except BaseException as error:
            if self._shown is not None:
                await self._shown.on_llm_error(error)
            raise

    async def on_llm_new_token(self, *_: Any, chunk: Any = None, run_id: UUID, **__: Any) -> None:
        """Add a piece of the model's text, and stream what hooks let pass."""
        self._read = self._read or run_id
        if run_id == self._read and isinstance(chunk, ChatGenerationChunk):  # another run is that of a fallback
            text = await self._stream.add(chunk.message.text)
            if text:
                await self._show(AIMessageChunk(content=text, id=chunk.message.id))

    async def finish(self, answer: AIMessage) -> None:
        """Stream what is left of the answer, if any of it was streamed. Otherwise the graph streams it whole."""
        if self._shown is None:
            return
        calls = answer.tool_calls + answer.invalid_tool_calls
        rest = AIMessageChunk(
            content=self._stream.rest,
            tool_calls=answer.tool_calls,
            invalid_tool_calls=answer.invalid_tool_calls,
            id=answer.id,
        )
        if self._stream.rest or calls:
            await self._show(rest)
        await self._shown.on_llm_end(LLMResult(generations=[]))

    async def _show(self, message: AIMessageChunk) -> None:
        if self._shown is None:
            (self._shown,) = await asked_for(self._manager.on_chat_model_start({"name": "picohook"}, [[]]))
        await self._shown.on_llm_new_token(message.text, chunk=ChatGenerationChunk(message=message))


# Converts requests, answers and results to the form that hooks see, and applies the changes of hooks.


def _request_of(request: ModelRequest[Any]) -> LLMRequest:
    """Returns a request as hooks see it. The model's own settings hold unless the request changes them."""
    named = [getattr(request.model, name, None) for name in ("model_name", "model", "name")]
    own = {name: getattr(request.model, name, None) for name in ("temperature", "max_tokens")}
    own = {name: value for name, value in own.items() if isinstance(value, int | float)}
    return LLMRequest(
        model=str(next(filter(None, named), "")),
        messages=[_message(message) for message in request.messages],
        tools=[convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool for tool in request.tools],
        options=to_jsonable_python(own | request.model_settings, fallback=str),
        system_prompt=request.system_message.text if request.system_message else None,
    )


def _hosted(request: ModelRequest[Any]) -> Iterator[str]:
    """Returns the names of the tools that run at the provider."""
    bound = getattr(request.model, "kwargs", None) or {}
    for tool in (*request.tools, *(request.model_settings.get("tools") or ()), *(bound.get("tools") or ())):
        if isinstance(tool, dict):
            kind = tool.get("type") or ("function" if "name" in tool or "title" in tool else next(iter(tool), "tool"))
            if kind not in {"function", "custom", "object"}:
                yield str(kind)


def _with_edits(edited: LLMRequest, shown: LLMRequest, request: ModelRequest[Any]) -> ModelRequest[Any]:
    """Returns the request with the changes of hooks. Anything unchanged is LangChain's own object."""
    changes: dict[str, Any] = {}
    if edited.messages != shown.messages:
        changes["messages"] = rebuilt(shown.messages, request.messages, edited.messages, _made)
    if edited.system_prompt != shown.system_prompt:
        changes["system_message"] = SystemMessage(edited.system_prompt) if edited.system_prompt else None
    if edited.tools != shown.tools:
        changes["tools"] = rebuilt(shown.tools, request.tools, edited.tools, dict)  # an added tool is offered unchanged
    if edited.options != shown.options:
        changes["model_settings"] = edited_settings(request.model_settings, shown, edited)
    return request.override(**changes) if changes else request


def _message(message: BaseMessage) -> Message:
    shown = convert_to_openai_messages(message)
    assert isinstance(shown, dict)
    return shown


def _made(message: Message) -> Any:
    (made,) = convert_to_messages([message])
    return made


def _find_answer(response: ModelResponse[Any]) -> tuple[int, AIMessage]:
    """Returns the model's message and its index. LangChain may add messages about structured output after it."""
    return next((index, message) for index, message in enumerate(response.result) if isinstance(message, AIMessage))


def _shown_answer(response: ModelResponse[Any]) -> Message:
    """Returns an answer as hooks see it."""
    shown = _message(_find_answer(response)[1])
    return {key: value for key, value in shown.items() if key != "role"}


def _with_answer(message: AIMessage, answer: Mapping[str, Any]) -> AIMessage:
    """Returns the message with the changes of hooks. Anything unchanged is LangChain's own object."""
    shown = _message(message)
    made = _made({"content": "", **answer, "role": "assistant"})
    changes: dict[str, Any] = {}
    if answer.get("content") != shown.get("content"):
        changes["content"] = made.content
    if (answer.get("tool_calls") or []) != shown.get("tool_calls", []):
        others = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
        changes |= {"tool_calls": made.tool_calls, "invalid_tool_calls": made.invalid_tool_calls}
        changes["additional_kwargs"] = others
    return message.model_copy(update=changes)


def _hands_off(value: Any) -> bool:
    """Whether the result of a tool hands off to another agent."""
    if isinstance(value, list):
        return any(map(_hands_off, value))
    return isinstance(value, Command) and value.graph == Command.PARENT and bool(value.goto)


def _find_tool_message(value: Any, identity: str) -> ToolMessage | None:
    """Returns the message for the model about this call in the result of its tool, or None."""
    if isinstance(value, ToolMessage):
        return value if value.tool_call_id == identity else None
    if isinstance(value, Command) and isinstance(value.update, dict):
        value = value.update.get("messages")
    parts = value if isinstance(value, list) else ()
    return next(filter(None, (_find_tool_message(part, identity) for part in parts)), None)


def _replace_tool_message(value: Any, new: ToolMessage) -> Any:
    """Returns the result of a tool with this message for the model in place of its own."""
    if isinstance(value, ToolMessage) and value.tool_call_id == new.tool_call_id:
        return value.model_copy(update={"content": new.content, "status": new.status, "artifact": None})
    if isinstance(value, list):
        return [_replace_tool_message(part, new) for part in value]
    if isinstance(value, Command) and isinstance(value.update, dict):
        messages = _replace_tool_message(value.update.get("messages"), new)
        return replace(value, update={**value.update, "messages": messages})
    return value
