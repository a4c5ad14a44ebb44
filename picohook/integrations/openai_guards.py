"""Models and tools of the OpenAI Agents SDK with hooks around them."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from .. import Continue, PausedError, PicohookError, ToolResult
from . import extra
from .chat import tool_call
from .openai_messages import ModelInput, answered, nothing, replayed, shown_output

with extra("openai-agents"):
    from agents import CustomTool, FunctionTool, Model, ModelProvider, ModelResponse, Usage
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
        ResponseOutputItemDoneEvent,
        ResponseTextDeltaEvent,
    )

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agents import RunContextWrapper
    from agents.items import TResponseOutputItem, TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from agents.tool_context import ToolContext

    from .. import Decision, LLMRequest, Outcome, ResponseStream, ToolCall
    from .agent_run import AgentRun
    from .chat import Message


class InnerInterruptionError(Exception):
    """An agent inside a tool waits for a person. This is neither a result nor a failure."""


class GuardedCall:
    """Calls a tool with hooks around it. The tool is None if a hook added it: then hooks have to answer the call."""

    def __init__(self, run_here: Callable[[], AgentRun], name: str, tool: FunctionTool | CustomTool | None) -> None:
        self._run_here = run_here
        self._name = name
        self._tool = tool

    async def needs_approval(self, context: RunContextWrapper[Any], arguments: Any, call_id: str) -> bool:
        """Whether the tool's own setting asks for approval, or else a hook pauses the call."""
        return await self._needs_own_approval(context, arguments, call_id) or await self._run_here().pauses(
            self._shown(arguments, call_id)
        )

    async def _needs_own_approval(self, context: RunContextWrapper[Any], arguments: Any, call_id: str) -> bool:
        tool = self._tool
        own: Any = (
            tool.runtime_needs_approval() if isinstance(tool, CustomTool) else getattr(tool, "needs_approval", False)
        )
        needed = own(context, arguments, call_id) if callable(own) else own
        return bool(await needed if hasattr(needed, "__await__") else needed)

    def _shown(self, arguments: Any, call_id: str) -> ToolCall:
        return tool_call(self._name, {"input": arguments} if isinstance(self._tool, CustomTool) else arguments, call_id)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        run = self._run_here()
        failed: list[Exception] = []

        async def execute(edited: dict[str, Any] | None) -> Any:
            tool, given = self._tool, arguments
            if tool is None:
                failed.append(PicohookError(f"unknown tool {self._name}"))
                return str(failed[0])
            if edited is not None:
                given = edited.get("input", "") if isinstance(tool, CustomTool) else json.dumps(edited)
            returned = await self._invoke(tool, context, given, failed)
            if returned is None and getattr(tool, "_is_agent_tool", False):
                raise InnerInterruptionError
            return returned

        def show(output: Any) -> ToolResult:
            text = output.text if isinstance(output, ToolOutputText) else str(output)
            return ToolResult(for_llm=text, is_error=bool(failed))

        approved = await self._is_approved(context, arguments, run)

        def on_pause(outcome: Outcome[ToolCall]) -> Decision:
            if not approved or context.tool_call_id not in run.waited:
                raise PausedError(outcome)
            run.waited.remove(context.tool_call_id)  # a person's approval is for one hook
            return Continue()

        try:
            ended = await run.tool(partial(self._shown, arguments, context.tool_call_id), execute, show, on_pause)
        except InnerInterruptionError:
            return None
        return ended.for_llm if isinstance(ended, ToolResult) else ended

    async def _is_approved(self, context: ToolContext[Any], arguments: str, run: AgentRun) -> bool:
        """Whether a person approved this call because a hook paused it, not because of the tool's own setting."""
        if context.tool_call_id not in run.waited or not context.is_tool_approved(self._name, context.tool_call_id):
            return False
        given: Any = arguments
        if not isinstance(self._tool, CustomTool):
            try:
                given = from_json(arguments, allow_inf_nan=False)
            except ValueError:
                return False  # the SDK asks about such arguments by itself
        return not await self._needs_own_approval(context, given, context.tool_call_id)

    async def _invoke(
        self, tool: FunctionTool | CustomTool, context: ToolContext[Any], arguments: str, failed: list[Exception]
    ) -> Any:
        if isinstance(tool, FunctionTool):
            noting = _noting(tool, context, failed)
            return await invoke_function_tool(function_tool=noting, context=context, arguments=arguments)
        output = tool.on_invoke_tool(context, arguments)
        return await output if hasattr(output, "__await__") else output


def _noting(tool: FunctionTool, context: ToolContext[Any], failed: list[Exception]) -> FunctionTool:
    """Returns a copy of the tool that also notes the errors that the SDK turns into text."""

    def noted(text_of: Callable[[RunContextWrapper[Any], Any], Any]) -> Callable[[RunContextWrapper[Any], Any], Any]:
        def note(context: RunContextWrapper[Any], error: Any) -> Any:
            failed.append(error)
            return text_of(context, error)

        return note

    def timed_out(_: RunContextWrapper[Any], error: Any) -> str:
        return default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=error.timeout_seconds)

    noting = copy.copy(tool)
    if (text_of_error := resolve_function_tool_failure_error_function(tool, context)) is not None:
        set_function_tool_failure_error_function(noting, noted(text_of_error))
    noting.timeout_error_function = noted(tool.timeout_error_function or timed_out)
    return noting


def added_tool(run_here: Callable[[], AgentRun], described: Message) -> FunctionTool:
    """Returns the tool that a hook added. The hook answers its calls."""
    return FunctionTool(
        name=described["name"],
        description=described["description"],
        params_json_schema=described["parameters"],
        on_invoke_tool=GuardedCall(run_here, described["name"], None),
        strict_json_schema=False,
    )


class GuardedProvider(ModelProvider):
    """A provider whose models ask hooks."""

    def __init__(self, provider: ModelProvider, run_here: Callable[[], AgentRun]) -> None:
        self._provider = provider
        self._run_here = run_here

    def get_model(self, model_name: str | None) -> Model:
        return GuardedModel(self._provider.get_model(model_name), self._run_here)

    async def aclose(self) -> None:
        await self._provider.aclose()


class _StreamedOutput:
    """The events of one response: those that can be passed on, and a few in place of the others at its end."""

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._items: list[TResponseOutputItem] = []
        self._response: Response | None = None
        self._last: ResponseTextDeltaEvent | None = None
        """The last piece of text that hooks let pass."""

    async def passed(self, event: TResponseStreamEvent) -> TResponseStreamEvent | None:
        """Take an event of the model. Returns the event to pass on now."""
        if isinstance(event, ResponseCompletedEvent):
            self._response = event.response
            return None
        if isinstance(event, ResponseOutputItemDoneEvent):
            self._items.append(event.item)
        if self._stream.unguarded:
            return event
        if isinstance(event, ResponseTextDeltaEvent) and (text := await self._stream.add(event.delta)):
            self._last = _with_text(event, text)
            return self._last
        return None

    async def conclude(self) -> None:
        """Ask hooks about the whole response. Raises `PicohookError` if the stream ended without one."""
        if self._response is None:
            raise PicohookError("the model's stream ended without a response")
        await self._stream.conclude(shown_output(self._output))

    def rest(self, answer: Mapping[str, Any]) -> list[TResponseStreamEvent]:
        """Returns the events of the rest of the response, as hooks left it."""
        assert self._response is not None
        *events, completed = replayed(self._response, answered(self._output, answer))
        if self._stream.unguarded:
            return [completed]
        if self._last is not None:
            events = [event for event in events if not isinstance(event, ResponseTextDeltaEvent)]
            events[:0] = [_with_text(self._last, self._stream.rest)] if self._stream.rest else []
        return [*events, completed]

    @property
    def _output(self) -> list[TResponseOutputItem]:
        assert self._response is not None
        return self._response.output or self._items  # some servers leave the response itself empty


def _with_text(event: ResponseTextDeltaEvent, text: str) -> ResponseTextDeltaEvent:
    return event.model_copy(update={"delta": text, "logprobs": []})


_, *_ARGUMENTS = signature(Model.get_response).parameters


class GuardedModel(Model):
    """A model that asks hooks before and after each request."""

    def __init__(self, model: Model, run_here: Callable[[], AgentRun]) -> None:
        self._model = model
        self._run_here = run_here

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001 - a wrapper has to pass it on

    async def close(self) -> None:
        await self._model.close()

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        model_input, shown = self._asked(given, options)
        response, usage = ModelResponse(output=[], usage=Usage(), response_id=None), Usage()
        async with self._run_here().model_call(shown) as decided:
            while decided.response is None:
                with decided.operation.work():
                    response = await self._model.get_response(**model_input.edited(shown, decided.request))
                usage.add(response.usage)  # includes the rounds that hooks asked for
                await decided.conclude(shown_output(response.output))
        return replace(response, output=answered(response.output, decided.response.response), usage=usage)

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:
        model_input, shown = self._asked(given, options)
        output: _StreamedOutput | None = None
        async with self._run_here().model_call(shown) as decided:
            while decided.response is None:
                edited = model_input.edited(shown, decided.request)
                output = _StreamedOutput(decided.stream())
                events = self._model.stream_response(**edited)
                async with aclosing(events) if isinstance(events, AsyncGenerator) else nullcontext():
                    async for event in events:
                        if (passed := await output.passed(event)) is not None:
                            yield passed
                await output.conclude()
        answer = decided.response.response
        for event in replayed(nothing(), answered([], answer)) if output is None else output.rest(answer):
            yield event

    def _asked(self, given: Sequence[Any], options: Mapping[str, Any]) -> tuple[ModelInput, LLMRequest]:
        """Returns a request, and how hooks see it. The SDK gives some of its arguments by position."""
        arguments = {**dict(zip(_ARGUMENTS, given, strict=False)), **options}
        model_input = ModelInput(arguments, partial(added_tool, self._run_here))
        return model_input, model_input.shown(str(getattr(self._model, "model", "") or ""))
