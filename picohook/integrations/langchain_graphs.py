"""Follows LangChain's running graphs. Ends the turn of a graph that fails, and refuses an agent that asks no hooks."""

from contextvars import ContextVar
from typing import Any, TypeVar

from .. import PicohookError
from . import extra
from .agent_run import current_run, having, require_named

with extra("langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.runnables.config import ensure_config
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.errors import GraphBubbleUp

from collections.abc import Awaitable, Iterator, Mapping
from uuid import UUID

from .agent_run import AgentRun

MODEL_NODE = "model"
"""The name that `create_agent` gives the node that asks the model."""

T = TypeVar("T")


class Graphs(BaseCallbackHandler):
    """Ends the turn of a graph that fails. A middleware only learns of failures in itself."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: dict[UUID, AgentRun] = {}
        """The agent run of each graph."""
        self._graphs: dict[UUID, UUID] = {}
        """The graph of each node that runs."""
        self._parents: dict[UUID, UUID] = {}
        """The parent of everything that runs in a graph."""
        self._handed_over: set[UUID] = set()
        """The graphs in which an agent that asks hooks has handed off to another agent."""
        self._unasked: dict[UUID, str] = {}
        """The part of each graph that asked a model before the graph's first hook was asked."""

    def here(self, run: AgentRun) -> None:
        """Set the agent run of the graph that runs in this context.

        Raises `PicohookError` if a part of the graph that `unguarded` does not name has asked a model before.
        """
        node = _current_node()
        if node in self._graphs:
            graph = self._graphs[node]
            self.runs[graph] = run
            if (part := self._unasked.pop(graph, None)) is not None:
                _refuse(part, run)

    def asks_by_itself(self, run: UUID | None, part: str) -> None:
        """Refuse a part of a guarded agent that asks a model by itself. Raises `PicohookError` with its name."""
        around = [run, *self._around(run)]
        if run is None or _ASKED.get() in around:
            return
        for graph in [self._graphs[one] for one in around if one in self._graphs]:
            if graph in self.runs:
                _refuse(part, self.runs[graph])
            self._unasked[graph] = part

    def is_node(self, run_id: UUID | None) -> bool:
        """Whether this is a running node of a graph, and not a call inside a node or a tool."""
        return run_id in self._graphs

    def handed_over(self) -> None:
        """Note that the current agent hands off to another node of its outer graph."""
        node = _current_node()
        graph = None if node is None else self._graphs.get(node)
        around = [run for run in self._around(graph) if run in self._graphs]
        if around:
            self._handed_over.add(self._graphs[around[0]])

    def was_handed_over_to(self, node: UUID) -> bool:
        """Whether this node belongs to an agent that another one handed off to."""
        return any(run in self._handed_over for run in self._around(node))

    def _around(self, run: UUID | None) -> Iterator[UUID]:
        while run is not None and (run := self._parents.get(run)) is not None:
            yield run

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        node = (more.get("metadata") or {}).get("langgraph_node")  # everything inside a node has it too
        if parent_run_id is None or node is None:
            return
        self._parents[run_id] = parent_run_id
        if more.get("name") == node:
            self._graphs[run_id] = parent_run_id

    def on_chain_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self._forget(run_id)
        self.runs.pop(run_id, None)  # it ended, or was interrupted: another graph continues it then

    def _forget(self, run_id: UUID) -> None:
        self._graphs.pop(run_id, None)
        self._parents.pop(run_id, None)
        self._handed_over.discard(run_id)
        self._unasked.pop(run_id, None)

    async def on_chain_error(
        self, error: BaseException, *, run_id: UUID, **__: Any
    ) -> None:  # LangChain awaits it in async runs
        self._forget(run_id)
        run = self.runs.pop(run_id, None)
        if run is not None and not isinstance(error, GraphBubbleUp):
            await run.__aexit__(type(error), error, error.__traceback__)


GRAPHS = Graphs()
_ASKED: ContextVar[UUID | None] = ContextVar("picohook_asked", default=None)
"""The node whose call runs here, after hooks were asked about it."""


def _refuse(part: str, run: AgentRun) -> None:
    try:
        require_named(part, "a middleware asks a model here by itself, and no hook", run.unguarded)
    except PicohookError as error:
        run.ended = error  # a middleware may take the error for one of its model
        raise


class _Refusal(BaseCallbackHandler):
    """Refuses a middleware that asks a model by itself, and an agent without hooks: inside a tool, and after a handoff.

    Its graph is complete, so hooks cannot be added to it.
    """

    run_inline = True
    raise_error = True

    def on_chat_model_start(
        self, *_: Any, parent_run_id: UUID | None = None, metadata: Mapping[str, Any] | None = None, **__: Any
    ) -> None:
        node = (metadata or {}).get("langgraph_node", "")
        if node == MODEL_NODE:
            self._require_asked("the model", parent_run_id, metadata)
        here = node or ensure_config().get("metadata", {}).get("langgraph_node", "")  # the call may have hidden both
        GRAPHS.asks_by_itself(parent_run_id or _current_node(), here.split(".")[0])

    on_llm_start = on_chat_model_start

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
        if node is None or node == _ASKED.get() or not GRAPHS.is_node(node):
            return
        outer = current_run()
        if outer is None and not GRAPHS.was_handed_over_to(node):
            return
        name = (metadata or {}).get("lc_agent_name")
        named = f" {name}" if name and (outer is None or name != outer.turn.meta.agent_id) else ""
        where = "after a handoff" if outer is None else "inside a tool"
        raise PicohookError(
            f"the agent{named} {where} calls {called} without asking hooks: give it a PicohookMiddleware of its own"
        )


for _handler in (GRAPHS, _Refusal()):
    register_configure_hook(ContextVar(f"picohook_{type(_handler).__name__}", default=_handler), inheritable=True)


def _current_node() -> UUID | None:
    """Returns the node that runs here, or None."""
    return getattr(ensure_config().get("callbacks"), "parent_run_id", None)


async def asked_for(call: Awaitable[T]) -> T:
    """Await a call that hooks were asked about."""
    with having(_ASKED, _current_node()):
        return await call
