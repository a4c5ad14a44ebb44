"""Hooks for Pydantic AI: `Agent(model, capabilities=[Picohook(host)])`.

A run is a turn. The capability goes around the model and around the tools themselves, inside of all other capabilities, so
that what hooks approve is what runs, and what they let through is what is streamed.
"""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from ..errors import PicohookError
from ..model.payloads import LLMRequest, ToolResult
from . import extra
from .guard import Guard, Message, added, function_call, function_tool, inside, restored, tool_call

with extra("pydantic-ai"):
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed
    from pydantic_ai.messages import (
        InstructionPart,
        ModelRequest,
        ModelResponse,
        RetryFeedbackPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturn,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import CompletedStreamedResponse
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from pydantic_ai.capabilities.abstract import WrapRunHandler
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import RunContext

    from ..host import Host
    from ..model.payloads import ToolCall

SIGNALS = (ApprovalRequired, CallDeferred, SkipToolExecution)
"""What a tool raises to have its call put off: no failure, and no result yet."""

_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Of a tool that a hook added: the hook says what is wrong with them."""

_Place = tuple[ModelRequest | None, Any]
"""A part with the request that it is of; or a whole response, and no request."""


@dataclass
class _Step:
    """Where the framework looks for the tools that the model calls, in this step of the run."""

    toolset: AbstractToolset[Any] | None = None
    context: RunContext[Any] | None = None

    def add(self, definition: ToolDefinition) -> None:
        """Let it find one that a hook added."""
        manager = None if self.context is None else self.context.tool_manager
        if self.context is None or manager is None or manager.tools is None or self.toolset is None:
            raise PicohookError(f"the tool {definition.name} that a hook added cannot be called here")
        manager.tools[definition.name] = ToolsetTool(
            toolset=self.toolset,
            tool_def=definition,
            max_retries=1,
            args_validator=_ANY_ARGUMENTS,
        )


@dataclass
class Picohook(AbstractCapability[AgentDepsT]):
    """Asks the host's hooks about every model call and every tool call of an agent. Its host has to be running."""

    host: Host
    agent_id: str = ""
    _guard: Guard | None = field(default=None, repr=False)
    _step: _Step = field(default_factory=_Step, repr=False)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Picohook[AgentDepsT]:
        _guard_what_tools_run()
        guard = Guard(
            self.host,
            ctx.conversation_id or ctx.run_id or "",
            _text(ctx.prompt),
            agent_id=self.agent_id or (ctx.agent.name if ctx.agent else None) or "",
            turn_id=ctx.run_id,
            signals=SIGNALS,
        )
        return replace(self, _guard=guard, _step=_Step())

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        del ctx
        async with self._running:
            return await handler()

    async def wrap_output_process(self, ctx: RunContext[AgentDepsT], *, handler: Any, output: Any, **_: Any) -> Any:
        del ctx
        with self._running.around():  # a function that makes the output may hand off to another agent
            return await handler(output)

    def get_wrapper_model(self, model: Model) -> Model:
        return _GuardedModel(model, self._running, self._step)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        return _GuardedToolset(toolset, self._running, self._step)

    @property
    def _running(self) -> Guard:
        if self._guard is None:
            raise PicohookError("Picohook guards the runs of an agent, and this is no run")
        return self._guard


# Agents inside of tools.

_iter: Any = Agent.iter


@functools.wraps(_iter)
def _guarded_iter(
    agent: Agent[Any, Any], *given: Any, capabilities: Sequence[Any] | None = None, **options: Any
) -> Any:
    """`Agent.iter`, through which all runs go. One inside a guarded tool gets a `Picohook` where it has none."""
    outer = inside()
    if outer is not None and not _asks_hooks(agent, capabilities or ()):
        capabilities = [*(capabilities or ()), Picohook[Any](outer.host)]
    return _iter(agent, *given, capabilities=capabilities, **options)


def _asks_hooks(agent: Agent[Any, Any], more: Sequence[Any]) -> bool:
    found: list[AbstractCapability[Any]] = []
    for capability in (agent._effective_root_capability(), *more):  # noqa: SLF001 - with what `override` says
        if isinstance(capability, AbstractCapability):
            capability.apply(found.append)
    return any(isinstance(capability, Picohook) for capability in found)


def _guard_what_tools_run() -> None:
    agents: Any = Agent
    if agents.iter is not _guarded_iter:
        agents.iter = _guarded_iter


# Tools.


@dataclass
class _GuardedToolset(WrapperToolset[AgentDepsT]):
    guard: Guard
    step: _Step

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        self.step.toolset, self.step.context = self, ctx
        return await super().get_tools(ctx)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        def asked() -> ToolCall:
            return tool_call(name, to_jsonable_python(tool_args, fallback=str), ctx.tool_call_id)

        call = asked()
        failure: type[ModelRetry | ToolFailed] = ToolFailed

        async def execute(own: ToolCall) -> Any:
            nonlocal failure
            try:
                if tool.toolset is self and own.tool == call.tool:
                    raise ToolFailed(f"there is no tool {own.tool}")  # a hook added it, and did not answer
                if own.tool == call.tool and own.arguments == asked().arguments:
                    return await self.wrapped.call_tool(name, tool_args, ctx, tool)
                return await self._call_other(own, ctx)
            except ModelRetry:
                failure = ModelRetry
                raise

        def show(value: Any) -> ToolResult:
            content = value.return_value if isinstance(value, ToolReturn) else value
            return ToolResult(for_llm=ToolReturnPart(name, content).model_response_str())

        ended = await self.guard.tool(call, execute, show)
        if not isinstance(ended, ToolResult):
            return ended
        if ended.is_error:
            raise failure(ended.for_llm)
        return ended.for_llm

    async def _call_other(self, own: ToolCall, ctx: RunContext[AgentDepsT]) -> Any:
        """Call what a hook made of a call: its arguments, or the tool too."""
        tool = (await self.wrapped.get_tools(ctx)).get(own.tool)
        if tool is None:
            raise ToolFailed(f"there is no tool {own.tool}")
        arguments = tool.args_validator.validate_python(own.arguments, context=ctx.validation_context)
        return await self.wrapped.call_tool(own.tool, arguments, ctx, tool)


# The model.


class _GuardedModel(WrapperModel):
    def __init__(self, wrapped: Model, guard: Guard, step: _Step) -> None:
        super().__init__(wrapped)
        self._guard = guard
        self._step = step

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return await self._ask(self.wrapped.request, messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        # The whole response is read before any of it is handed on: hooks decide on it first.
        async def request(
            messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
        ) -> ModelResponse:
            async with self.wrapped.request_stream(messages, settings, parameters, run_context) as stream:
                async for _ in stream:
                    pass
                return stream.get()

        response = await self._ask(request, messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def _ask(
        self,
        request: Callable[[list[ModelMessage], ModelSettings | None, ModelRequestParameters], Awaitable[ModelResponse]],
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        asked = _request(self.model_name, messages, {**(self.wrapped.settings or {}), **(settings or {})}, parameters)
        responses: list[ModelResponse] = []

        async def complete(edited: LLMRequest) -> Mapping[str, Any]:
            for definition in _added(asked, edited):
                self._step.add(definition)
            responses.append(await request(*_edited(edited, asked, messages, settings, parameters)))
            return _shown(responses[-1])

        said = (await self._guard.llm(asked, complete)).response
        if not responses:
            return _answered(ModelResponse(parts=[], model_name=self.model_name), said)
        usage = responses[0].usage
        for other in responses[1:]:
            usage = usage + other.usage  # of the rounds that hooks asked for
        return _answered(replace(responses[-1], usage=usage), said)


def _request(
    model: str, messages: list[ModelMessage], settings: Mapping[str, Any], parameters: ModelRequestParameters
) -> LLMRequest:
    instructions = InstructionPart.join(parameters.instruction_parts) if parameters.instruction_parts else None
    return LLMRequest(
        model=model,
        messages=[message for message, _ in _messages(messages)],
        tools=[_tool(tool) for tool in parameters.function_tools],
        options=to_jsonable_python(settings, fallback=str),
        system_prompt=instructions,
    )


def _edited(
    edited: LLMRequest,
    asked: LLMRequest,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]:
    """The request as hooks left it; what they did not change is what it was."""
    if edited.messages != asked.messages:
        messages = _kept(messages, edited.messages)
    if edited.options != asked.options:
        changed = {key: value for key, value in edited.options.items() if asked.options.get(key) != value}
        same = {key: value for key, value in (settings or {}).items() if key in edited.options}
        settings = cast(ModelSettings, {**same, **changed})
    if edited.system_prompt != asked.system_prompt:
        parts = [InstructionPart(content=edited.system_prompt)] if edited.system_prompt else []
        parameters = replace(parameters, instruction_parts=parts)
    if edited.tools != asked.tools:
        known = {tool.name: tool for tool in (*parameters.function_tools, *_added(asked, edited))}
        described = [tool.get("function") or tool for tool in edited.tools]
        tools = [_redescribed(known[said["name"]], said) for said in described if said.get("name") in known]
        parameters = replace(parameters, function_tools=tools)
    return messages, settings, parameters


def _added(asked: LLMRequest, edited: LLMRequest) -> list[ToolDefinition]:
    """The tools that hooks added, and answer themselves."""
    return [
        ToolDefinition(
            name=described["name"],
            description=described.get("description"),
            parameters_json_schema=described.get("parameters") or {"type": "object", "properties": {}},
        )
        for described in added(asked.tools, edited.tools)
    ]


def _tool(tool: ToolDefinition) -> Message:
    return function_tool(tool.name, tool.description, tool.parameters_json_schema)


def _redescribed(tool: ToolDefinition, said: Mapping[str, Any]) -> ToolDefinition:
    if said == _tool(tool)["function"]:
        return tool
    parameters = said.get("parameters") or tool.parameters_json_schema
    return replace(tool, description=said.get("description"), parameters_json_schema=parameters)


# Messages.


def _messages(messages: Sequence[ModelMessage]) -> list[tuple[Message, _Place]]:
    shown: list[tuple[Message, _Place]] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            shown.append(({"role": "assistant", **_shown(message)}, (None, message)))
        else:
            shown += [(_part(part), (message, part)) for part in message.parts]
    return shown


def _part(part: Any) -> Message:
    match part:
        case SystemPromptPart():
            return {"role": "system", "content": part.content}
        case UserPromptPart(content=str()):
            return {"role": "user", "content": part.content}
        case UserPromptPart():
            return {"role": "user", "content": [_item(item) for item in part.content]}
        case ToolReturnPart():
            content = part.model_response_str()
            return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}
        case RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
    return {"role": "system", "type": part.part_kind, "content": ""}  # the framework's own bookkeeping


def _item(item: Any) -> Message:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    shown = to_jsonable_python(item, fallback=str, exclude={"data"}, bytes_mode="base64")
    return {"type": item.kind, **shown} if isinstance(shown, dict) else {"type": item.kind}


def _kept(messages: Sequence[ModelMessage], edited: Sequence[Message]) -> list[ModelMessage]:
    pairs = _messages(messages)
    kept: list[ModelMessage] = []
    for request, part in restored([shown for shown, _ in pairs], [own for _, own in pairs], edited, _made):
        if isinstance(part, ModelResponse):
            kept.append(part)
        elif kept and isinstance(last := kept[-1], ModelRequest):
            kept[-1] = replace(last, parts=[*last.parts, part])
        else:
            kept.append(replace(request, parts=[part]) if request else ModelRequest(parts=[part]))
    return kept


def _made(message: Message) -> _Place:
    """What a hook put into the conversation."""
    content = _text(message.get("content") or "")
    match message.get("role"):
        case "assistant":
            return None, _answered(ModelResponse(parts=[]), message)
        case "system":
            return None, SystemPromptPart(content)
        case "tool":
            return None, ToolReturnPart(message.get("name", ""), content, message.get("tool_call_id", ""))
    return None, UserPromptPart(content)


def _shown(response: ModelResponse) -> Message:
    said: Message = {"content": "".join(part.content for part in response.parts if isinstance(part, TextPart))}
    if thoughts := "".join(part.content for part in response.parts if isinstance(part, ThinkingPart)):
        said["reasoning_content"] = thoughts
    if calls := [part for part in response.parts if isinstance(part, ToolCallPart)]:
        said["tool_calls"] = [_call(part) for part in calls]
    return said


def _call(part: ToolCallPart) -> Message:
    return function_call(part.tool_name, part.args_as_json_str(), part.tool_call_id)


def _answered(response: ModelResponse, said: Mapping[str, Any]) -> ModelResponse:
    """The response as hooks left it; what they did not change is what it was."""
    shown = _shown(response)
    parts = list(response.parts)
    for key, kind in (("reasoning_content", ThinkingPart), ("content", TextPart)):
        text = _text(said.get(key) or "")
        if text != shown.get(key, ""):
            place = next((place for place, part in enumerate(parts) if isinstance(part, kind)), len(parts))
            parts = [part for part in parts if not isinstance(part, kind)]
            parts[place:place] = [kind(text)] if text else []
    calls = said.get("tool_calls") or []
    if calls != shown.get("tool_calls", []):
        own = [part for part in parts if isinstance(part, ToolCallPart)]
        others = [part for part in parts if not isinstance(part, ToolCallPart)]
        parts = [*others, *restored(shown.get("tool_calls", []), own, calls, _made_call)]
    return replace(response, parts=parts or [TextPart("")])


def _made_call(call: Message) -> ToolCallPart:
    made = tool_call(**_named(call))
    return ToolCallPart(made.tool, made.arguments, *([made.tool_call_id] if made.tool_call_id else []))


def _named(call: Message) -> dict[str, Any]:
    function = call.get("function") or call
    return {"name": function.get("name"), "arguments": function.get("arguments"), "identity": call.get("id")}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text", "") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))
