"""Hooks for Google ADK: `App(name="app", root_agent=agent, plugins=[PicohookPlugin(host)])`.

An invocation is a turn. The plugin wraps each model and each tool when it is first used, inside all callbacks. So nothing
changes a call after its approval. In a runner without the plugin, a wrapped model or tool asks no hooks.

With `confirmations=True` a pause is a tool confirmation of ADK, which the session keeps. So another process can resume it.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from .. import Continue, PausedError, PicohookError, ToolResult
from . import extra
from .agent_run import AgentRun
from .chat import added_functions, tool_call
from .google_adk_messages import (
    shown_parts,
    shown_request,
    text_in,
    text_of_result,
    text_piece,
    whole,
    with_answer,
    with_edits,
)
from .google_adk_parts import refuse_agent, refuse_hosted, refuse_run, refuse_tool

with extra("google-adk"):
    from google.adk.agents import LlmAgent
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    from google.adk.agents.base_agent import BaseAgent
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.tool_context import ToolContext

    from .. import Decision, Host, Outcome, ToolCall

NAME = "picohook"


@dataclass
class _Asking:
    """A request that is about to go to a model, its run, and the id of its agent."""

    request: LlmRequest
    run: AgentRun
    agent_id: str
    asked: bool = False


_ASKING: ContextVar[_Asking | None] = ContextVar("picohook_asking", default=None)


class PicohookPlugin(BasePlugin):
    """Asks the host's hooks about every model call and every tool call of a runner's agents. Its host has to be running.

    With `confirmations`, a call that a hook pauses waits for ADK's tool confirmation. Otherwise the run raises `PausedError`.
    `unguarded` names what may run without hooks, by class: a run with another part that asks no hooks is refused.
    """

    def __init__(
        self, host: Host, *, agent_id: str = "", confirmations: bool = False, unguarded: Collection[str] = ()
    ) -> None:
        super().__init__(name=NAME)
        self._unguarded = unguarded
        self.confirmations = confirmations
        self._host = host
        self._agent_id = agent_id
        self._runs: dict[str, AgentRun] = {}

    # A run.

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Begin the turn. Raises `PicohookError` for `runner.run`, a live run, and a run with a part that asks no hooks."""
        if invocation_context.live_request_queue is not None:
            raise PicohookError("hooks cannot be asked in a live run: use `run_async`")
        refuse_run(invocation_context, self._unguarded)
        content = invocation_context.user_content
        run = AgentRun(
            self._host,
            invocation_context.session.id,
            "" if content is None else str(shown_parts(content.parts or [])["content"]),
            agent_id=self._agent_id or getattr(invocation_context.agent, "name", ""),
            turn_id=invocation_context.invocation_id,
        )
        try:
            await run.__aenter__()
        except PicohookError as error:
            hint = "`runner.run` has an event loop of its own: write `async for event in runner.run_async(...)`"
            raise PicohookError(f"{error}. {hint}") from error
        self._runs[invocation_context.invocation_id] = run
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(partial(self._abandon, invocation_context.invocation_id))

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """End the turn. ADK also calls this for a run whose events are not read to the end, which is no complete turn."""
        run = self._runs.get(invocation_context.invocation_id)
        stopped = run is not None and run.stopped
        await self._end(invocation_context.invocation_id, asyncio.CancelledError() if stopped else None)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        await self._end(invocation_context.invocation_id, error)

    async def _end(self, invocation_id: str, error: BaseException | None) -> None:
        run = self._runs.pop(invocation_id, None)
        if run is not None:
            await run.__aexit__(None if error is None else type(error), error, None)

    def _abandon(self, invocation_id: str, _: asyncio.Task[Any]) -> None:
        """End the turn of a run that was cancelled. ADK tells plugins of every other end."""
        if invocation_id in self._runs:
            self._host.begin_task(partial(self._end, invocation_id, asyncio.CancelledError()))

    async def close(self) -> None:
        """End the turns of runs that were cancelled. The runner closes its plugins."""
        for invocation_id in [*self._runs]:
            await self._end(invocation_id, asyncio.CancelledError())

    def run_of(self, context: CallbackContext) -> AgentRun:
        """Returns the run of a callback. Raises `PicohookError` if it has ended."""
        run = self._runs.get(context.invocation_id)
        if run is None:
            raise PicohookError(f"{context.agent_name}: its run has ended, and hooks cannot be asked")
        return run

    def agent_id_of(self, context: CallbackContext) -> str:
        """Returns the id of a callback's agent."""
        return self._agent_id or context.agent_name

    # Models and tools are wrapped just before they are used.

    async def before_agent_callback(self, *, agent: BaseAgent, **_: Any) -> None:
        refuse_agent(agent, self._unguarded)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        run = self.run_of(callback_context)
        refuse_hosted(llm_request, self._unguarded)
        agent = callback_context.get_invocation_context().agent
        if not isinstance(agent, LlmAgent):
            raise PicohookError(f"{callback_context.agent_name}: this agent has no model that hooks can be asked about")
        _wrap(await agent.canonical_model_async(callback_context), "generate_content_async", _generate)
        _ASKING.set(_Asking(llm_request, run, self.agent_id_of(callback_context)))

    async def after_model_callback(self, *, callback_context: CallbackContext, **_: Any) -> None:
        """Refuse the answer of a model that is not the agent's. Raises `PicohookError`."""
        asking = _ASKING.get()
        if asking is not None and not asking.asked:
            raise PicohookError(
                f"{callback_context.agent_name}: another model than the agent's was asked, and no hook: set the agent's `model`"
            )

    async def before_tool_callback(self, *, tool: BaseTool, tool_context: ToolContext, **_: Any) -> None:
        self.run_of(tool_context)
        refuse_tool(tool, self._unguarded)
        _wrap(tool, "run_async", partial(_run_tool, tool))


class _Wrapper(partial[Any]):
    """A function around a method, which is its last argument."""


def _wrap(owner: BaseLlm | BaseTool, name: str, wrapper: Callable[..., Any]) -> None:
    """Put a wrapper around a method of this object, in place of an earlier one. Other objects of its class stay as they are."""
    method = getattr(owner, name)
    if isinstance(method, _Wrapper):
        method = method.args[-1]
        if getattr(method, "__self__", owner) is not owner:  # the object is a copy, with the wrapper of the original
            method = MethodType(getattr(type(owner), name), owner)
    object.__setattr__(owner, name, _Wrapper(wrapper, method))


# The model.


async def _generate(
    generate: Callable[..., AsyncGenerator[LlmResponse]],
    llm_request: LlmRequest,
    stream: bool = False,  # noqa: FBT001, FBT002 - ADK's
) -> AsyncGenerator[LlmResponse]:
    asking = _ASKING.get()
    if asking is None or asking.asked or asking.request is not llm_request:
        async for response in generate(llm_request, stream):
            yield response
        return
    asking.asked = True
    run, agent_id = asking.run, asking.agent_id
    shown = shown_request(llm_request)
    response, streamed, rest = LlmResponse(), False, ""
    run.set_agent(agent_id)  # agents can run at the same time: the turn reads it before anything else runs
    async with run.model_call(shown) as decided:
        while decided.response is None:
            for function in added_functions(shown, decided.request):
                name, description = function["name"], function["description"]
                llm_request.tools_dict[name] = _AddedTool(name=name, description=description)
            pieces, answers = decided.stream(), []
            async with aclosing(generate(with_edits(llm_request, shown, decided.request), stream)) as answering:
                async for answer in answering:
                    if not answer.partial:
                        answers.append(answer)
                    elif pieces.unguarded:
                        streamed = True
                        yield answer
                    elif text := await pieces.add(text_in(_parts(answer))):
                        streamed = True
                        yield text_piece(text)
            response = whole(answers or [LlmResponse()])
            await pieces.conclude(shown_parts(_parts(response)))
            rest = "" if pieces.unguarded else pieces.rest
    parts = with_answer(_parts(response), decided.response.response)
    content = types.Content(role="model", parts=parts) if parts else response.content
    if stream and not streamed and (texts := [part for part in parts if part.text]):
        yield LlmResponse(content=types.Content(role="model", parts=texts), partial=True)
    elif streamed and rest:
        yield text_piece(rest)
    yield response.model_copy(update={"content": content})


def _parts(response: LlmResponse) -> list[types.Part]:
    return (response.content.parts if response.content is not None else None) or []


# Tools.


async def _run_tool(
    tool: BaseTool, run_async: Callable[..., Any], *, args: dict[str, Any], tool_context: ToolContext
) -> Any:
    plugin = tool_context.get_invocation_context().plugin_manager.get_plugin(NAME)
    if not isinstance(plugin, PicohookPlugin):
        return await run_async(args=args, tool_context=tool_context)
    run = plugin.run_of(tool_context)

    def shown() -> ToolCall:
        return tool_call(tool.name, args, tool_context.function_call_id)

    confirmation = _Confirmation(tool_context, can_wait=plugin.confirmations and run.parent is None)
    if confirmation.rejected:
        about = shown().model_copy(update={"meta": run.turn.meta})
        run.host.emit("tool_exec_skipped", {"Tool": tool.name, "Reason": REJECTED}, about=about)
        return {"error": REJECTED}

    async def execute(edited: dict[str, Any] | None) -> Any:
        return await run_async(args=args if edited is None else edited, tool_context=tool_context)

    def show(result: Any) -> ToolResult:
        failed = isinstance(result, dict) and "error" in result
        return ToolResult(for_llm=text_of_result(result), is_error=failed)

    agent_id = plugin.agent_id_of(tool_context)
    try:
        ended = await run.tool(shown, execute, show, confirmation.on_pause, agent_id=agent_id)
    except _WaitsError as waits:
        return confirmation.ask(waits.outcome)
    if isinstance(ended, ToolResult):
        return {"error" if ended.is_error else "result": ended.for_llm}
    return ended


class _AddedTool(BaseTool):
    """A tool that a hook added. The hook answers its calls."""

    async def run_async(self, **_: Any) -> Any:
        return {"error": f"unknown tool {self.name}"}  # no hook answered the call


# A hook's pause is a tool confirmation, in the session. So another process can continue the run.

WAITS = "This call waits for a person's confirmation."
"""The result of a call that waits, until a person has answered."""
REJECTED = "A person rejected this call."
PAUSE = "picohook"
"""The key of a confirmation's payload whose value is the pause: the hook, its reason, and the call as hooks left it."""


class _WaitsError(Exception):
    """The call has to wait for a person, since a hook has paused it."""

    def __init__(self, outcome: Outcome[ToolCall]) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class _Confirmation:
    """The confirmation of one call: a person's answer about a hook's pause, or the question."""

    def __init__(self, tool_context: ToolContext, *, can_wait: bool) -> None:
        """`can_wait` says whether a person can be asked. ADK asks once about a call."""
        self._context = tool_context
        confirmation = tool_context.tool_confirmation
        self._answered = None if confirmation is None else _asked_pause(tool_context)
        self._can_wait = can_wait and confirmation is None
        self.rejected = self._answered is not None and confirmation is not None and not confirmation.confirmed
        if self._answered is not None:
            tool_context.tool_confirmation = None  # a tool that asks for a confirmation itself has not got this one

    def on_pause(self, outcome: Outcome[ToolCall]) -> Decision:
        """Returns the person's decision. Raises `_WaitsError` to ask the person, or `PausedError` if that is not possible."""
        pause = _shown(outcome) | {"reason": (self._answered or {}).get("reason")}
        if self._answered == pause:  # the same hook's pause about the same call, maybe with another reason
            self._answered = None  # a confirmation is for one hook
            return Continue()
        raise _WaitsError(outcome) if self._can_wait else PausedError(outcome)

    def ask(self, outcome: Outcome[ToolCall]) -> dict[str, str]:
        """Ask the person. Returns the result of the call until then."""
        self._context.request_confirmation(
            hint=outcome.reason or f"{outcome.hook} asks", payload={PAUSE: _shown(outcome)}
        )
        self._context.actions.skip_summarization = True  # the model is asked when the call has its result
        return {"error": WAITS}


def _shown(outcome: Outcome[ToolCall]) -> dict[str, Any]:
    call = outcome.payload
    return {"hook": outcome.hook, "reason": outcome.reason, "tool": call.tool, "arguments": call.arguments}


def _asked_pause(tool_context: ToolContext) -> dict[str, Any] | None:
    """Returns the pause that this call's confirmation was about; None if the tool itself asked for it."""
    for event in reversed(tool_context.session.events):
        question = event.actions.requested_tool_confirmations.get(tool_context.function_call_id or "")
        if question is not None:
            pause = question.payload.get(PAUSE) if isinstance(question.payload, dict) else None
            return pause if isinstance(pause, dict) else None
    return None
