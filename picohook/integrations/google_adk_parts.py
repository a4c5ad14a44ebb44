"""Refuses what runs a tool, code or a model in Google ADK and asks no plugin about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import extra
from .agent_run import require_named

with extra("google-adk"):
    from google.adk.tools.agent_tool import AgentTool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.base_tool import BaseTool

ADK = "google.adk."

NODES = {
    *("BaseAgent", "LlmAgent", "LoopAgent", "ParallelAgent", "SequentialAgent"),
    *("BaseNode", "FunctionNode", "JoinNode", "Node", "Workflow", "_ParallelWorker", "_ToolNode"),
}
"""ADK's own agents and nodes that ask plugins about each model call and tool call. It has others that do not."""

TOOLS = {"ModelConsultTool"}
"""Tools that send the conversation to a model."""

PLUGINS = {"EnvironmentSimulationPlugin", "ReplayPlugin"}
"""Plugins that put a model or a recording in the place of tools or models."""


def refuse_run(context: InvocationContext, unguarded: Collection[str]) -> None:
    """Refuse what is set for a whole run. Raises `PicohookError` with the name of the part."""
    if context.run_config is not None and context.run_config.support_cfc:
        require_named("support_cfc", "it is a live run, in which hooks cannot be asked", unguarded)
    if context.events_compaction_config is not None:
        name = type(context.events_compaction_config).__name__
        require_named(name, "it sends the session to a model, and asks no hook", unguarded)
    for plugin in context.plugin_manager.plugins:
        if _own_kind(plugin) in PLUGINS:
            require_named(_own_kind(plugin), "with this plugin hooks are not asked about what runs", unguarded)
    for node in _nodes(context.agent):
        refuse_agent(node, unguarded)


def _nodes(node: Any) -> Iterator[Any]:
    """Returns a node and those that it has been made with."""
    yield node
    graph = getattr(node, "graph", None)
    for inner in (*getattr(node, "sub_agents", ()), *getattr(graph, "nodes", ())):
        yield from _nodes(inner)


def refuse_agent(agent: Any, unguarded: Collection[str]) -> None:
    """Refuse an agent or a node. Raises `PicohookError` with the name of the part."""
    if (kind := _own_kind(agent)) and kind not in NODES:
        require_named(kind, "what this agent does asks no hooks", unguarded)
    if (executor := getattr(agent, "code_executor", None)) is not None:
        require_named(type(executor).__name__, "it runs the model's code, and asks no hook", unguarded)


def refuse_tool(tool: BaseTool, unguarded: Collection[str]) -> None:
    """Refuse a tool. Raises `PicohookError` with its name."""
    if isinstance(tool, AgentTool) and not tool.include_plugins:
        require_named(type(tool).__name__, "with `include_plugins=False` its agent asks no hooks", unguarded)
    if (kind := _own_kind(tool)) in TOOLS:
        require_named(kind, "it sends the conversation to a model, and asks no hook", unguarded)


def refuse_hosted(request: LlmRequest, unguarded: Collection[str]) -> None:
    """Refuse the tools of a request that run at the provider. Raises `PicohookError` with the name of the tool."""
    for tool in request.config.tools or []:
        for name in getattr(tool, "model_fields_set", {type(tool).__name__}) - {"function_declarations"}:
            if getattr(tool, name, tool) is not None:
                require_named(name, "this tool runs at the provider, and asks no hook", unguarded)


def _own_kind(part: Any) -> str:
    """Returns the name of the class of ADK that this part is one of, or ''."""
    return next((kind.__name__ for kind in type(part).__mro__ if kind.__module__.startswith(ADK)), "")
