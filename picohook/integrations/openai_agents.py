"""Hooks for the OpenAI Agents SDK: `await PicohookRunner(host).run(agent, "hello")`, in place of `Runner.run`.

The runner runs a copy of the agent whose model and tools ask hooks. It copies the agents of handoffs too. A run is a turn. An
agent inside a tool, by `as_tool` or by `Runner.run`, also asks hooks, in a sub-turn.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from .. import PicohookError
from . import extra
from .agent_run import AgentRun, current_run, having, require_named
from .openai_guards import GuardedCall, GuardedModel, GuardedProvider, InnerInterruptionError

with extra("openai-agents"):
    from agents import (
        Agent,
        CustomTool,
        FunctionTool,
        Handoff,
        Model,
        RunConfig,
        Runner,
        RunState,
        is_openai_responses_compaction_aware_session,
    )
    from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from agents import ModelSettings, RunContextWrapper, RunResult, RunResultStreaming, Tool

    from .. import Host, Outcome, ToolCall


class _Run(AgentRun):
    """A run, with its runner."""

    runner: PicohookRunner
    first: str
    """The name of its first agent."""


_CURRENT: ContextVar[_Run | None] = ContextVar("picohook_run", default=None)


class PicohookRunner:
    """Runs agents as `Runner` does, and asks the host's hooks about their model calls and tool calls.

    Its host has to be running. The options of `run` and `stream` are those of `Runner.run` and `Runner.run_streamed`.
    `session_id` names the session. Without it, the SDK's `session` does. With `interruptions`, a hook's pause is an
    interruption of the SDK, and `pauses` has its reason. `unguarded` names what may run without hooks, by class: an agent
    with another tool or session that asks no hooks is refused.
    """

    def __init__(
        self, host: Host, *, agent_id: str = "", interruptions: bool = False, unguarded: Collection[str] = ()
    ) -> None:
        self._host = host
        self._unguarded = unguarded
        self._types: dict[type[Agent[Any]], type[Agent[Any]]] = {}
        self._agent_id = agent_id
        self._interruptions = interruptions
        self._paused: WeakKeyDictionary[RunContextWrapper[Any], Mapping[str, Outcome[ToolCall]]] = WeakKeyDictionary()

    async def run(self, agent: Agent[Any], task: Any, *, session_id: str = "", **options: Any) -> RunResult:
        """`Runner.run`, in a turn. Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook ends the run."""
        async with self._turn(agent, task, session_id, options) as (run, all_options):
            result = await Runner.run(self.guard(agent), task, **all_options)
            self._paused[result.context_wrapper] = run.paused
            if run.ended is not None:  # the SDK took the error for a call that waits
                raise run.ended
        return result

    def run_sync(self, *_: Any, **__: Any) -> RunResult:
        """Refuse a synchronous run. Raises `PicohookError`."""
        raise PicohookError("PicohookRunner cannot ask hooks in `run_sync`: write `await runner.run(agent, ...)`")

    @asynccontextmanager
    async def stream(
        self, agent: Agent[Any], task: Any, *, session_id: str = "", **options: Any
    ) -> AsyncIterator[RunResultStreaming]:
        """`Runner.run_streamed`, in a turn that ends with the block. Events come after hooks have seen the response."""
        async with self._turn(agent, task, session_id, options) as (run, all_options):
            result = Runner.run_streamed(self.guard(agent), task, **all_options)
            self._paused[result.context_wrapper] = run.paused
            try:
                yield result
            finally:
                if not result.is_complete:
                    result.cancel()

    def pauses(self, result: RunResult | RunResultStreaming) -> dict[str, Outcome[ToolCall]]:
        """Returns the outcomes of the hooks that paused, by call id. An interruption by the SDK itself has none."""
        waiting = {item.call_id for item in result.interruptions}
        paused = self._paused.get(result.context_wrapper, {})
        return {identity: outcome for identity, outcome in paused.items() if identity in waiting}

    @asynccontextmanager
    async def _turn(
        self, agent: Agent[Any], task: Any, session_id: str, options: dict[str, Any]
    ) -> AsyncIterator[tuple[AgentRun, dict[str, Any]]]:
        if isinstance(task, RunState) and not isinstance(task._current_agent, _Guarded):  # noqa: SLF001 - there is no public way
            raise PicohookError(
                "this RunState has tools that ask no hooks: make it with `RunState.from_json(runner.guard(agent), ...)`"
            )
        kept = options.get("session")
        if kept is not None and is_openai_responses_compaction_aware_session(kept):
            require_named(type(kept).__name__, "this session asks a model to compact it, and no hook", self._unguarded)
        session = session_id or getattr(kept, "session_id", "") or uuid4().hex
        agent_id = self._agent_id or agent.name
        prompt = task if isinstance(task, str) else ""
        run = _Run(self._host, session, prompt, agent_id=agent_id, signals=(InnerInterruptionError,))
        run.runner, run.first = self, agent.name
        if isinstance(task, RunState):
            run.waited.update(_ids(task))
        if not isinstance(default := get_default_agent_runner(), _DefaultRunner):
            set_default_agent_runner(_DefaultRunner(default))
        async with run:
            try:
                with having(_CURRENT, run):
                    yield run, self._configured(options)
            except Exception as error:  # which the SDK may have put in the place of a hook's
                own = run.ended or (error.__cause__ if isinstance(error.__cause__, PicohookError) else None)
                if own is not None:
                    raise own from None
                raise

    def _configured(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options with models that ask hooks."""
        config = options.get("run_config") or RunConfig()
        config = RunConfig(**config) if isinstance(config, dict) else config
        self._require_no_tools_in(config.model_settings)
        model = self._model(config.model) if isinstance(config.model, Model) else config.model
        provider = config.model_provider
        if not isinstance(provider, GuardedProvider):
            provider = GuardedProvider(provider, self._run_here)
        return {**options, "run_config": replace(config, model=model, model_provider=provider)}

    # Guarded copies.

    def guard(self, agent: Agent[Any]) -> Agent[Any]:
        """Returns a copy of the agent that asks hooks: for a `RunState`, or as a tool of another agent.

        Raises `PicohookError` for a tool that hooks cannot be asked about.
        """
        return self._guarded(agent, {})

    def _guarded(self, agent: Agent[Any], known: dict[int, Agent[Any]]) -> Agent[Any]:
        if id(agent) not in known:
            if agent.prompt is not None:
                require_named("prompt", "hooks do not see what the provider has stored", self._unguarded)
            self._require_no_tools_in(agent.model_settings)
            guarded = known[id(agent)] = agent if isinstance(agent, _Guarded) else agent.clone()
            if guarded is not agent:
                guarded.__class__ = self._type(type(agent))
            guarded.tools = [self._tool(tool) for tool in agent.tools]
            guarded.model = self._model(agent.model) if isinstance(agent.model, Model) else agent.model
            guarded.handoffs = [self._handoff(handoff, known) for handoff in agent.handoffs]
        return known[id(agent)]

    def _type(self, kind: type[Agent[Any]]) -> type[Agent[Any]]:
        """Returns the class of this runner's guarded agents of a kind. So the SDK's copies of them are guarded too."""
        if kind not in self._types:
            self._types[kind] = type(kind.__name__, (_Guarded, kind), {"picohook": self})
        return self._types[kind]

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any], known: dict[int, Agent[Any]]) -> Any:
        if isinstance(handoff, Agent):
            return self._guarded(handoff, known)

        if isinstance(handoff.on_invoke_handoff, _HandOff):
            return handoff
        guarded = copy.copy(handoff)
        guarded.on_invoke_handoff = _HandOff(self._hand_off, handoff, known)
        return guarded

    async def _hand_off(
        self, handoff: Handoff[Any, Any], known: dict[int, Agent[Any]], context: RunContextWrapper[Any], arguments: str
    ) -> Agent[Any]:
        return self._guarded(await handoff.on_invoke_handoff(context, arguments), known)

    def _require_no_tools_in(self, settings: ModelSettings | None) -> None:
        for name in ("extra_body", "extra_args"):
            more = getattr(settings, name, None)
            if isinstance(more, Mapping) and "tools" in more:
                require_named(name, "it has tools that hooks cannot be asked about", self._unguarded)

    def _tool(self, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool | CustomTool):
            require_named(type(tool).__name__, "hooks cannot be asked about this tool", self._unguarded)
            return tool
        if isinstance(tool.on_invoke_tool, GuardedCall):
            return tool
        guarded = copy.copy(tool)
        guarded.on_invoke_tool = call = GuardedCall(self._run_here, tool.name, tool)
        if self._interruptions:
            guarded.needs_approval = call.needs_approval
        if isinstance(guarded, FunctionTool):
            guarded.timeout_seconds = None  # the timeout is for the tool alone: an approver may take longer
        return guarded

    def _model(self, model: Model) -> Model:
        return model if isinstance(model, GuardedModel) else GuardedModel(model, self._run_here)

    def _run_here(self) -> AgentRun:
        """Returns the current run. A guarded agent in another runner gets a run for each request."""
        return _CURRENT.get() or AgentRun(self._host, uuid4().hex, agent_id=self._agent_id)


def _ids(state: RunState[Any]) -> set[str]:
    """Returns the ids of the calls that a person was asked about."""
    return {item.call_id for item in state.get_interruptions() if item.call_id}


class _HandOff(partial[Any]):
    """Hands off to a guarded copy of the agent."""


class _Guarded(Agent[Any]):
    """An agent whose tools ask hooks, whoever adds them."""

    picohook: ClassVar[PicohookRunner]

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        runner, run = self.picohook, _CURRENT.get()
        if run is not None:  # the next model call is this agent's
            first = runner._agent_id and self.name == run.first  # noqa: SLF001
            run.set_agent(runner._agent_id if first else self.name)  # noqa: SLF001
        runner.guard(self)  # it may be a copy with another model, or other handoffs
        return [runner._tool(tool) for tool in await super().get_all_tools(run_context)]  # noqa: SLF001


class _DefaultRunner(AgentRunner):
    """The SDK's default runner, which also guards the agents that a guarded run's own code runs. `as_tool` uses it."""

    def __init__(self, wrapped: AgentRunner) -> None:
        self._wrapped = wrapped

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the SDK's name
        outer = _outer(starting_agent)
        if outer is None:
            return await self._wrapped.run(starting_agent, input, **options)
        return await outer.runner.run(starting_agent, input, session_id=outer.turn.session.id, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        if _outer(starting_agent) is not None:
            raise PicohookError("`Runner.run_sync` cannot ask hooks inside a tool: await `Runner.run`")
        return self._wrapped.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:  # noqa: A002
        outer = _outer(starting_agent)
        if outer is not None:  # in the turn of the outer run: the end of a turn of its own could not be seen
            starting_agent, options = outer.runner.guard(starting_agent), outer.runner._configured(options)  # noqa: SLF001
            if isinstance(input, RunState):
                outer.waited.update(_ids(input))
        result = self._wrapped.run_streamed(starting_agent, input, **options)
        if outer is not None:
            outer.runner._paused[result.context_wrapper] = outer.paused  # noqa: SLF001
        return result


def _outer(agent: Agent[Any]) -> _Run | None:
    """Returns the guarded run whose tool, guardrail or memory runs this agent, or None."""
    here = _CURRENT.get()
    return here if here is not None and (current_run() is here or not isinstance(agent, _Guarded)) else None
