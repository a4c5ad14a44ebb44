"""Hooks for Pydantic AI: `Agent(model, capabilities=[Picohook(host)])`.

A run is a turn. The capability wraps the model and the tools themselves, inside all other capabilities. So nothing changes a
call after its approval, and hooks see a response before it is streamed, where any are asked about it.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from .. import Continue, PausedError, PicohookError, ToolResult
from . import extra
from .agent_run import AgentRun, current_run, having, require_named
from .chat import added_functions, tool_call
from .pydantic_ai_messages import ModelInput, made_tool, shown_answer, shown_prompt, with_answer
from .pydantic_ai_stream import GuardedStream, text_in

with extra("pydantic-ai"):
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, HandleDeferredToolCalls
    from pydantic_ai.exceptions import (
        ApprovalRequired,
        CallDeferred,
        ModelRetry,
        SkipToolExecution,
        ToolFailed,
    )
    from pydantic_ai.messages import (
        ModelResponse,
        ToolReturn,
        ToolReturnPart,
    )
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
    from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence

    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities.abstract import WrapRunHandler
    from pydantic_ai.messages import ModelMessage, ModelResponseStreamEvent
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.output import OutputContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

    from .. import Decision, Host, LLMRequest, Outcome, ToolCall

SIGNALS = (ApprovalRequired, CallDeferred, SkipToolExecution)
"""Exceptions with which a tool defers its call. They are neither failures nor results."""

_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""Accepts all arguments, for a tool that a hook added: the hook itself checks them."""


class _Run(AgentRun):
    """A run of an agent, with the place where the framework looks up the tools of its current step."""

    toolset: AbstractToolset[Any] | None = None
    context: RunContext[Any] | None = None
    defers = False
    """Whether the run can end with calls that wait for a person."""

    def defer(self, outcome: Outcome[ToolCall], ctx: RunContext[Any]) -> Decision:
        """Returns the decision in place of a hook that paused, if a person approved the call.

        Otherwise raises `ApprovalRequired`, or `PausedError` if the run cannot end with a deferred call.
        """
        if ctx.tool_call_approved:
            return Continue()
        if not self.defers:
            raise PausedError(outcome)
        call = {"tool": outcome.payload.tool, "arguments": outcome.payload.arguments}
        raise ApprovalRequired(metadata={"hook": outcome.hook, "reason": outcome.reason, **call})

    def add(self, definition: ToolDefinition) -> None:
        """Add a tool of a hook. Raises `PicohookError` if the framework looks up no tools here."""
        manager = None if self.context is None else self.context.tool_manager
        if manager is None or manager.tools is None or self.toolset is None:
            raise PicohookError(f"{definition.name}: a hook added this tool, and the model cannot call tools here")
        manager.tools[definition.name] = ToolsetTool(
            toolset=self.toolset, tool_def=definition, max_retries=1, args_validator=_ANY_ARGUMENTS
        )


@dataclass
class Picohook(AbstractCapability[AgentDepsT]):
    """Asks the host's hooks about every model call and every tool call of an agent. Its host has to be running.

    `unguarded` names what may run without hooks, by class: a run with another part that asks no hooks is refused.
    """

    host: Host
    agent_id: str = ""
    unguarded: Collection[str] = ()
    _run: _Run | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, method in _GUARDED.items():
            setattr(Agent, name, method)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Picohook[AgentDepsT]:
        run = _Run(
            self.host,
            ctx.conversation_id or ctx.run_id or "",
            shown_prompt(ctx.prompt),
            agent_id=self.agent_id or (ctx.agent.name if ctx.agent else None) or "",
            turn_id=ctx.run_id,
            signals=SIGNALS,
            unguarded=self.unguarded,
        )
        run.defers = _DEFERS.get()
        return replace(self, _run=run)

    async def wrap_run(self, _: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        async with self._running as run:
            with having(_AROUND, run):
                return await handler()

    async def wrap_output_process(
        self, _: RunContext[AgentDepsT], *, output_context: OutputContext, output: Any, handler: Any
    ) -> Any:
        """Ask hooks about an output function as about a tool."""
        if not output_context.has_function:
            return await handler(output)
        called = output_context.tool_call
        name = output_context.function_name or (called.tool_name if called is not None else "output")
        given = to_jsonable_python(output, fallback=str)
        taken = output_context.tool_def and output_context.tool_def.parameters_json_schema.get("properties")
        only = next(iter(taken or ()), "output")  # a function of one argument is given that
        arguments = given if isinstance(given, dict) else {only: given}

        def shown() -> ToolCall:
            return tool_call(name, arguments, None if called is None else called.tool_call_id)

        async def execute(edited: dict[str, Any] | None) -> Any:
            if edited is None:
                return await handler(output)
            kinds = [{key: type(value) for key, value in one.items()} for one in (edited, arguments)]
            if output != given or kinds[0] != kinds[1]:
                raise PicohookError(
                    f"{name}: a hook changed the call of this output function to one that it cannot take"
                )
            return await handler(edited if given is arguments else edited[only])

        def show(value: Any) -> ToolResult:
            return ToolResult(for_llm=str(value))

        ended = await self._running.tool(shown, execute, show)
        if not isinstance(ended, ToolResult):
            return ended
        if ended.is_error:
            raise ModelRetry(ended.for_llm)
        return ended.for_llm

    def get_wrapper_model(self, model: Model) -> Model:
        return _GuardedModel(model, self._running)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        return _GuardedToolset(toolset, self._running)

    @property
    def _running(self) -> _Run:
        if self._run is None:
            raise PicohookError(
                "Picohook is used outside of a run: give it to an agent, as `Agent(..., capabilities=[Picohook(host)])`"
            )
        return self._run


# Agents inside of tools.

_iter: Any = Agent.iter
_AROUND: ContextVar[AgentRun | None] = ContextVar("picohook_around", default=None)
"""The guarded run of this context, in which a capability may run an agent of its own."""

REALTIME = "hooks are not asked about the model of a realtime session"

BY_THEMSELVES = {"OpenAICompaction"}
"""Capabilities that ask a model, past the model of the run."""

_DEFERS: ContextVar[bool] = ContextVar("picohook_defers", default=False)
"""Whether the run that begins in this context can end with calls that wait for a person."""


@functools.wraps(_iter)
def _guarded_iter(
    agent: Agent[Any, Any],
    *given: Any,
    output_type: Any = None,
    capabilities: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """`Agent.iter`, which all runs use. An agent inside a guarded run gets a `Picohook` if it has none."""
    outer = current_run() or _AROUND.get()
    found = _capabilities(agent, capabilities or ())
    own = [one for one in found if isinstance(one, Picohook)]
    if outer is not None and not own:
        own = [Picohook[Any](outer.host, unguarded=outer.unguarded)]
        capabilities = [*(capabilities or ()), *own]
    for one in found:
        if own and type(one).__name__ in BY_THEMSELVES:
            require_named(type(one).__name__, "it asks a model by itself, and no hook", own[0].unguarded)
    _DEFERS.set(
        _is_deferred(agent.output_type if output_type is None else output_type)
        or any(isinstance(one, HandleDeferredToolCalls) for one in found)
    )
    return _iter(agent, *given, output_type=output_type, capabilities=capabilities, **options)


def _is_deferred(output: Any) -> bool:
    """Whether `DeferredToolRequests` is among the types of an output."""
    parts = output if isinstance(output, list | tuple) else get_args(output)
    return output is DeferredToolRequests or any(map(_is_deferred, parts))


def _capabilities(agent: AbstractAgent[Any, Any], more: Sequence[Any]) -> list[AbstractCapability[Any]]:
    found: list[AbstractCapability[Any]] = []
    for capability in (agent._effective_root_capability(), *more):  # type: ignore[attr-defined] # noqa: SLF001 - includes `override`
        if isinstance(capability, AbstractCapability):
            capability.apply(found.append)
    return found


def _refuse_run_sync(_: Picohook[Any]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return  # it runs a loop of its own
    raise PicohookError("`run_sync` cannot ask hooks here: write `await agent.run(...)`")


def _refusing(method: Any, refuse: Callable[[Picohook[Any]], None]) -> Any:
    """Returns this method of an agent, which calls `refuse` first if the agent asks hooks."""

    @functools.wraps(method)
    def call(agent: Agent[Any, Any], *given: Any, capabilities: Sequence[Any] | None = None, **options: Any) -> Any:
        for one in _capabilities(agent, capabilities or ()):
            if isinstance(one, Picohook):
                refuse(one)
        return method(agent, *given, capabilities=capabilities, **options)

    return call


_GUARDED = {
    "iter": _guarded_iter,
    "run_sync": _refusing(Agent.run_sync, _refuse_run_sync),
    "realtime": _refusing(Agent.realtime, lambda own: require_named("realtime", REALTIME, own.unguarded)),
}
"""The methods of agents as they are once a `Picohook` was made."""


# Tools.


@dataclass
class _GuardedToolset(WrapperToolset[AgentDepsT]):
    run: _Run

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        self.run.toolset, self.run.context = self, ctx
        return await super().get_tools(ctx)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        failure: type[ModelRetry | ToolFailed] = ToolFailed

        def shown() -> ToolCall:
            return tool_call(name, to_jsonable_python(tool_args, fallback=str), ctx.tool_call_id)

        async def execute(edited: dict[str, Any] | None) -> Any:
            nonlocal failure
            try:
                if tool.toolset is self:
                    raise ToolFailed(f"unknown tool {name}")  # a hook added it, but no hook answered the call
                valid = tool_args
                if edited is not None:
                    valid = tool.args_validator.validate_python(edited, context=ctx.validation_context)
                return await self.wrapped.call_tool(name, valid, ctx, tool)
            except ModelRetry:
                failure = ModelRetry
                raise

        def show(value: Any) -> ToolResult:
            content = value.return_value if isinstance(value, ToolReturn) else value
            return ToolResult(for_llm=ToolReturnPart(name, content).model_response_str())

        ended = await self.run.tool(shown, execute, show, lambda outcome: self.run.defer(outcome, ctx))
        if not isinstance(ended, ToolResult):
            return ended
        if ended.is_error:
            raise failure(ended.for_llm)
        return ended.for_llm


# The model.


def _refused(name: str) -> Any:
    """Returns a method of a model that raises `PicohookError` unless `unguarded` names it."""

    async def call(model: _GuardedModel, *given: Any, **options: Any) -> Any:
        require_named(name, "it sends the messages to the provider, and asks no hook", model._run.unguarded)  # noqa: SLF001
        return await getattr(model.wrapped, name)(*given, **options)

    return call


class _GuardedModel(WrapperModel):
    count_tokens = _refused("count_tokens")
    compact_messages = _refused("compact_messages")
    batch_encode = _refused("batch_encode")

    def __init__(self, wrapped: Model, run: _Run) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        own, shown = self._asked(messages, model_settings, model_request_parameters)
        response, usage = self._nothing, RequestUsage()
        async with self._run.model_call(shown) as decided:
            while decided.response is None:
                changed = self._edited(own, shown, decided.request)
                with decided.operation.work():
                    response = await self.wrapped.request(*changed)
                usage += response.usage  # includes the rounds that hooks asked for
                await decided.conclude(shown_answer(response))
        return with_answer(replace(response, usage=usage), decided.response.response)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        own, shown = self._asked(messages, model_settings, model_request_parameters)

        async def events(stream: GuardedStream) -> AsyncGenerator[ModelResponseStreamEvent]:
            response, usage, pieces = self._nothing, RequestUsage(), None
            async with self._run.model_call(shown) as decided:
                while decided.response is None:
                    changed, pieces = self._edited(own, shown, decided.request), decided.stream()
                    async with self.wrapped.request_stream(*changed, run_context) as inner:
                        stream.read(inner)
                        async for event in inner:
                            if pieces.unguarded:
                                seen = stream.passed(event)
                            else:
                                text = text_in(event)
                                seen = stream.show(await pieces.add(text) if text else "")
                            for piece in seen:
                                yield piece
                    if inner.cancelled:
                        return
                    response = inner.get()
                    usage += response.usage
                    await pieces.conclude(shown_answer(response))
            stream.response = with_answer(replace(response, usage=usage), decided.response.response)
            if pieces is None or not pieces.unguarded:
                for event in stream.rest(stream.response, "" if pieces is None else pieces.rest):
                    yield event

        stream = GuardedStream(self.model_name, model_request_parameters, events)
        try:
            yield stream
        finally:
            await stream.aclose()

    def _asked(self, *given: Any) -> tuple[ModelInput, LLMRequest]:
        """Returns a request, and how hooks see it."""
        own = ModelInput(*given)
        for tool in own.parameters.native_tools:
            require_named(type(tool).__name__, "this tool runs at the provider, and asks no hook", self._run.unguarded)
        return own, own.shown(self.model_name, self.wrapped.settings or {})

    def _edited(self, own: ModelInput, shown: LLMRequest, edited: LLMRequest) -> ModelInput:
        """Returns the request with the changes of hooks, and add their tools to the step."""
        for function in added_functions(shown, edited):
            self._run.add(made_tool(function))
        return own.edited(shown, edited)

    @property
    def _nothing(self) -> ModelResponse:
        """The response of a model that was not asked."""
        return ModelResponse(parts=[], model_name=self.model_name)
