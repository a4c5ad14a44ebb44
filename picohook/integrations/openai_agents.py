"""Hooks for the OpenAI Agents SDK: `await PicohookRunner(host).run(agent, "hello")`, in place of `Runner.run`.

The runner runs a copy of the agent whose model and tools ask hooks, and those of the agents that it hands off to. A run is a
turn. An agent that runs inside a tool, by `as_tool` or by `Runner.run`, asks hooks too, in a sub-turn.
"""

from __future__ import annotations

import copy
import json
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..errors import PicohookError
from ..model.payloads import LLMRequest, ToolResult
from . import extra
from .guard import Guard, inside, tool_call
from .openai_items import Request, answered, nothing, replayed, shown_output

with extra("openai-agents"):
    from agents import (
        Agent,
        ApplyPatchTool,
        ComputerTool,
        CustomTool,
        FunctionTool,
        Handoff,
        LocalShellTool,
        Model,
        ModelProvider,
        ModelResponse,
        RunConfig,
        Runner,
        RunState,
        ShellTool,
        Usage,
    )
    from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
    from agents.tool import (
        ToolOutputText,
        default_tool_timeout_error_message,
        invoke_function_tool,
        resolve_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
    )

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from agents import ModelSettings, RunContextWrapper, RunResult, RunResultStreaming, Tool
    from agents.items import TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from agents.tool_context import ToolContext

    from ..host import Host
    from ..model.payloads import ToolCall
    from .guard import Message

UNGUARDED = (ComputerTool, LocalShellTool, ApplyPatchTool)
"""Tools that run here, and not through a function that hooks could be asked before."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What runs here."""

    runner: PicohookRunner
    guard: Guard
    first: str
    """The name of the agent that it began with."""


_RUN: ContextVar[_Run | None] = ContextVar("picohook_run", default=None)


class PicohookRunner:
    """Runs agents as `Runner` does, and asks the host's hooks about their model calls and tool calls.

    Its host has to be running. The options of `run` and `stream` are those of `Runner.run` and `Runner.run_streamed`; the
    session is that of `session_id`, or of the SDK's `session`.
    """

    def __init__(self, host: Host, *, agent_id: str = "") -> None:
        self._host = host
        self._agent_id = agent_id

    async def run(self, agent: Agent[Any], said: Any, *, session_id: str = "", **options: Any) -> RunResult:
        """`Runner.run`, in a turn. Raises what hooks end the run with as it is: `AbortTurnError`, `HardAbortError`."""
        async with self._turn(agent, said, session_id, options) as (guard, all_options):
            try:
                return await Runner.run(self.guard(agent), said, **all_options)
            except Exception as error:
                if (own := _own(error, guard)) is not None:
                    raise own from None
                raise

    @asynccontextmanager
    async def stream(
        self, agent: Agent[Any], said: Any, *, session_id: str = "", **options: Any
    ) -> AsyncIterator[RunResultStreaming]:
        """`Runner.run_streamed`, in a turn that ends with the block. What the model says comes when hooks have seen it."""
        async with self._turn(agent, said, session_id, options) as (guard, all_options):
            result = Runner.run_streamed(self.guard(agent), said, **all_options)
            try:
                yield result
            except Exception as error:
                if (own := _own(error, guard)) is not None:
                    raise own from None
                raise
            finally:
                if not result.is_complete:
                    result.cancel()

    @asynccontextmanager
    async def _turn(
        self, agent: Agent[Any], said: Any, session_id: str, options: dict[str, Any]
    ) -> AsyncIterator[tuple[Guard, dict[str, Any]]]:
        if isinstance(said, RunState) and not _is_guarded(said._current_agent):  # noqa: SLF001 - nothing else says it
            raise PicohookError(
                "this state has tools that ask no hooks: make it with `RunState.from_json(runner.guard(agent), ...)`"
            )
        session = session_id or getattr(options.get("session"), "session_id", "") or uuid4().hex
        agent_id = self._agent_id or agent.name
        guard = Guard(self._host, session, said if isinstance(said, str) else "", agent_id=agent_id)
        _guard_what_tools_run()
        async with guard:
            token = _RUN.set(_Run(self, guard, agent.name))
            try:
                yield guard, self._configured(options)
            finally:
                _RUN.reset(token)

    def _configured(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, with models that ask hooks."""
        config = options.get("run_config") or RunConfig()
        config = RunConfig(**config) if isinstance(config, dict) else config
        model = self._model(config.model) if isinstance(config.model, Model) else config.model
        provider = config.model_provider
        if not isinstance(provider, _GuardedProvider):
            provider = _GuardedProvider(self, provider)
        return {**options, "run_config": replace(config, model=model, model_provider=provider)}

    # What is guarded.

    def guard(self, agent: Agent[Any]) -> Agent[Any]:
        """A copy of the agent that asks hooks: to be restored into a `RunState`, or to be a tool of another agent."""
        return self._guarded(agent, {})

    def _guarded(self, agent: Agent[Any], known: dict[int, Agent[Any]]) -> Agent[Any]:
        if _is_guarded(agent):
            return agent
        if id(agent) not in known:
            model = self._model(agent.model) if isinstance(agent.model, Model) else agent.model
            guarded = known[id(agent)] = agent.clone(tools=self._tools(agent.tools), model=model, handoffs=[])
            guarded.handoffs = [self._handoff(handoff, known) for handoff in agent.handoffs]

            async def get_all_tools(run_context: RunContextWrapper[Any]) -> list[Tool]:
                run = _RUN.get()
                if run is not None:  # the next question to the model is this agent's
                    run.guard.speaks(self._agent_id if self._agent_id and agent.name == run.first else agent.name)
                return self._tools(await type(agent).get_all_tools(guarded, run_context))  # with those of MCP servers

            guarded.get_all_tools = get_all_tools  # type: ignore[method-assign]
        return known[id(agent)]

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any], known: dict[int, Agent[Any]]) -> Any:
        if isinstance(handoff, Agent):
            return self._guarded(handoff, known)

        async def hand_off(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self._guarded(await handoff.on_invoke_handoff(context, arguments), known)

        guarded = copy.copy(handoff)
        guarded.on_invoke_handoff = hand_off
        return guarded

    def _tools(self, tools: Sequence[Tool]) -> list[Tool]:
        return [self._tool(tool) for tool in tools]

    def _tool(self, tool: Tool) -> Tool:
        if isinstance(tool, UNGUARDED) or (isinstance(tool, ShellTool) and tool.executor is not None):
            raise PicohookError(f"no hook can be asked about {type(tool).__name__}: make a function tool of it")
        if not isinstance(tool, FunctionTool | CustomTool) or isinstance(tool.on_invoke_tool, _Invoke):
            return tool  # it runs at the provider, or is guarded
        guarded = copy.copy(tool)
        guarded.on_invoke_tool = _Invoke(self, tool.name, tool)
        if isinstance(guarded, FunctionTool):
            guarded.timeout_seconds = None  # of the tool alone: an approver may take longer
        return guarded

    def _model(self, model: Model) -> Model:
        return model if isinstance(model, _GuardedModel) else _GuardedModel(self, model)

    def added_tool(self, described: Message) -> FunctionTool:
        """A tool that a hook added, and answers itself."""
        return FunctionTool(
            name=described["name"],
            description=described.get("description") or "",
            params_json_schema=described.get("parameters") or {"type": "object", "properties": {}},
            on_invoke_tool=_Invoke(self, described["name"], None),
            strict_json_schema=False,
        )

    @property
    def running(self) -> Guard:
        """The guard of the run; a guarded agent that another runner runs has one for each question."""
        run = _RUN.get()
        return Guard(self._host, uuid4().hex, agent_id=self._agent_id) if run is None else run.guard


def _own(error: Exception, guard: Guard) -> Exception | None:
    """What was raised here, before the SDK made something else of it on its way out of a tool."""
    return guard.ended or (error.__cause__ if isinstance(error.__cause__, PicohookError) else None)


def _is_guarded(agent: Agent[Any] | None) -> bool:
    return agent is not None and "get_all_tools" in vars(agent)


class _DefaultRunner(AgentRunner):
    """The SDK's default runner, which also guards what a tool of a guarded run runs: `as_tool` ends up here."""

    def __init__(self, wrapped: AgentRunner) -> None:
        self._wrapped = wrapped

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the SDK's name
        outer = _outer()
        if outer is None:
            return await self._wrapped.run(starting_agent, input, **options)
        return await outer.runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        if _outer() is not None:
            raise PicohookError("hooks cannot be asked about `Runner.run_sync` inside a tool: await `Runner.run`")
        return self._wrapped.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:  # noqa: A002
        outer = _outer()
        if outer is not None:  # in the turn of the run that it is streamed in: nothing says when its own would end
            starting_agent, options = outer.runner.guard(starting_agent), outer.runner._configured(options)  # noqa: SLF001
        return self._wrapped.run_streamed(starting_agent, input, **options)


def _outer() -> _Run | None:
    """The guarded run whose tool runs here."""
    run = _RUN.get()
    return run if run is not None and inside() is run.guard else None


def _guard_what_tools_run() -> None:
    default = get_default_agent_runner()
    if not isinstance(default, _DefaultRunner):
        set_default_agent_runner(_DefaultRunner(default))


class _Invoke:
    """A tool, with hooks around it; None for one that a hook added, and has to answer itself."""

    def __init__(self, runner: PicohookRunner, name: str, tool: FunctionTool | CustomTool | None) -> None:
        self._runner = runner
        self._name = name
        self._tool = tool

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        custom = isinstance(self._tool, CustomTool)
        shown = {"input": arguments} if custom else arguments
        call = tool_call(self._name, shown, context.tool_call_id)
        failed: list[Exception] = []

        async def execute(own: ToolCall) -> Any:
            if self._tool is None or own.tool != call.tool:
                failed.append(PicohookError(f"there is no tool {own.tool}"))
                return str(failed[0])
            if own.arguments == call.arguments:
                return await self._invoke(self._tool, context, arguments, failed)
            changed = own.arguments.get("input", "") if custom else json.dumps(own.arguments)
            return await self._invoke(self._tool, context, changed, failed)

        def show(output: Any) -> ToolResult:
            text = output.text if isinstance(output, ToolOutputText) else str(output)
            return ToolResult(for_llm=text, is_error=bool(failed))

        ended = await self._runner.running.tool(call, execute, show)
        return ended.for_llm if isinstance(ended, ToolResult) else ended

    async def _invoke(
        self, tool: FunctionTool | CustomTool, context: ToolContext[Any], arguments: str, failed: list[Exception]
    ) -> Any:
        if isinstance(tool, FunctionTool):
            noting = _noting(tool, context, failed)
            return await invoke_function_tool(function_tool=noting, context=context, arguments=arguments)
        output = tool.on_invoke_tool(context, arguments)
        return await output if hasattr(output, "__await__") else output


def _noting(tool: FunctionTool, context: ToolContext[Any], failed: list[Exception]) -> FunctionTool:
    """The same tool. What it raises, and the SDK makes a text of, is noted."""
    noting = copy.copy(tool)
    text_of_error = resolve_function_tool_failure_error_function(tool, context)
    text_of_timeout = tool.timeout_error_function

    def say_error(context: RunContextWrapper[Any], error: Exception) -> Any:
        failed.append(error)
        assert text_of_error is not None
        return text_of_error(context, error)

    def say_timeout(context: RunContextWrapper[Any], error: Any) -> Any:
        failed.append(error)
        if text_of_timeout is not None:
            return text_of_timeout(context, error)
        return default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=error.timeout_seconds)

    if text_of_error is not None:
        set_function_tool_failure_error_function(noting, say_error)
    noting.timeout_error_function = say_timeout
    return noting


# The model.


class _GuardedProvider(ModelProvider):
    def __init__(self, runner: PicohookRunner, provider: ModelProvider) -> None:
        self._runner = runner
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        return _GuardedModel(self._runner, self._provider.get_model(model_name))

    async def aclose(self) -> None:
        await self._provider.aclose()


class _GuardedModel(Model):
    def __init__(self, runner: PicohookRunner, model: Model) -> None:
        self._runner = runner
        self._model = model

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001 - what wraps a model has to pass it on

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    async def get_response(  # noqa: PLR0917 - the SDK's
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff[Any, Any]],
        tracing: Any,
        **more: Any,
    ) -> ModelResponse:
        async def request(asked: Request) -> ModelResponse:
            return await self._model.get_response(*asked.given(output_schema, tracing), **more)

        return await self._ask(request, Request(system_instructions, input, model_settings, tools, handoffs))

    async def stream_response(  # noqa: PLR0917 - the SDK's
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff[Any, Any]],
        tracing: Any,
        **more: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        # The whole response is read before any of it is handed on: hooks decide on it first.
        events: list[TResponseStreamEvent] = []
        completed: Response | None = None

        async def request(asked: Request) -> ModelResponse:
            nonlocal completed
            events.clear()
            async for event in self._model.stream_response(*asked.given(output_schema, tracing), **more):
                events.append(event)
                completed = event.response if isinstance(event, ResponseCompletedEvent) else completed
            if completed is None:
                raise PicohookError("the model's stream ended without a response")
            return ModelResponse(output=completed.output, usage=Usage(), response_id=completed.id)

        asked = Request(system_instructions, input, model_settings, tools, handoffs)
        answer = await self._ask(request, asked)
        if completed is not None and answer.output == completed.output:
            for event in events:
                yield event
            return
        for event in replayed(completed or nothing(), answer.output):
            yield event

    async def _ask(self, request: Callable[[Request], Awaitable[ModelResponse]], given: Request) -> ModelResponse:
        asked = given.shown(str(getattr(self._model, "model", "") or ""))
        responses: list[ModelResponse] = []

        async def complete(edited: LLMRequest) -> Mapping[str, Any]:
            responses.append(await request(given.edited(asked, edited, self._runner.added_tool)))
            return shown_output(responses[-1].output)

        said = (await self._runner.running.llm(asked, complete)).response
        usage = Usage()
        for response in responses:
            usage.add(response.usage)  # also of the rounds that hooks asked for
        response = responses[-1] if responses else ModelResponse(output=[], usage=usage, response_id=None)
        return replace(response, output=answered(response.output, said), usage=usage)
