"""Filters the list of a server's tools: hooks edit it at before_llm, and tools are compared with their pins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from ...errors import ConfigError
from ...model.payloads import LLMRequest, Meta
from ...wire import words
from .messages import Message, RefusedLineError, result_line, same_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...observe.log import Log
    from ...sessions.base_session import BaseSession

Tool: TypeAlias = dict[str, Any]
Changed: TypeAlias = Literal["warn", "deny"]
"""The treatment of a tool that has changed since it was pinned."""
LIST = frozenset({"tools", "nextCursor"})
TOOL = frozenset({"name", "description", "inputSchema"})
HINTS = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
"""The annotations of a tool that hooks see at its calls."""


@dataclass
class Pins:
    """The digests of a server's tools, as they were first seen."""

    known: dict[str, str] = field(default_factory=dict)
    save: Callable[[dict[str, str]], None] = lambda _: None
    """Stores the digests. It is called in a thread."""
    changed: Changed = "warn"

    def compare(self, tools: list[Tool]) -> tuple[list[str], list[str]]:
        """The names of the tools that are new, and of those that have changed."""
        digests = {tool["name"]: _digest(tool) for tool in tools}
        new = [name for name in digests if name not in self.known]
        self.known |= {name: digests[name] for name in new}
        return new, [name for name, digest in digests.items() if self.known[name] != digest]


def _digest(tool: Tool) -> str:
    shown = {name: value for name, value in tool.items() if name != "_meta"}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


class ToolList:
    """The tools of one server, as its client sees them."""

    def __init__(self, session: BaseSession, server: str, pins: Pins, log: Log) -> None:
        self._session = session
        self._server = server
        self._prefix = f"mcp__{server}__"
        self._pins = pins
        self._log = log
        self._saving = anyio.Lock()
        self.hidden: dict[str, str] = {}
        """The tools that the client does not see, and why it may not call them."""
        self._added: set[str] = set()
        """The tools that hooks added."""
        self._hints: dict[str, dict[str, bool]] = {}
        """What the server says about its tools in annotations. A tool that does not match its pin has none."""

    def name_for_hooks(self, tool: str) -> str:
        """The name of a tool as hooks see it: their own name for a tool that they added."""
        return tool if tool in self._added else self._prefix + tool

    def context_of(self, tool: str) -> dict[str, Any]:
        """The context of a call: the tool's plain name, its server, and its annotations."""
        hints = {"mcp_annotations": self._hints[tool]} if tool in self._hints else {}
        return {"tool_name": tool, "mcp_server": self._server, **hints}

    async def filter(self, line: bytes, response: Message) -> bytes:
        """The line for the client. Raises `RefusedLineError`."""
        if "error" in response:
            return line
        result = response["result"]
        if why := _flaw(result):
            raise RefusedLineError(why)
        tools = {tool["name"]: tool for tool in result["tools"]}
        self._added -= tools.keys()
        unchanged = await self._without_changed(tools)
        left = await self._as_hooks_leave(unchanged, last=result.get("nextCursor") is None)
        self.hidden = {name: why for name, why in self.hidden.items() if name not in left}
        self.hidden |= dict.fromkeys(unchanged.keys() - left.keys(), "hooks took it from the list of tools")
        if left == tools:
            return line
        return result_line(response["id"], {**result, "tools": list(left.values())})

    async def _without_changed(self, tools: dict[str, Tool]) -> dict[str, Tool]:
        """Returns the tools that match their pins; all tools if changed ones may pass."""
        new, changed = self._pins.compare(list(tools.values()))
        hints = {name: _hints(tool) for name, tool in tools.items()}
        known = {name: told for name, told in hints.items() if told and name not in changed}
        self._hints = {name: told for name, told in self._hints.items() if name not in tools} | known
        if new:
            await self._save()
        for name in (*new, *changed):
            told = {"Server": self._server, "Tool": name, "Changed": name in changed}
            self._session.host.emit("mcp.tool.discovered", told, meta=self._session.meta)
        for name in changed:
            self._log.warning("a tool of an MCP server has changed", server=self._server, tool=name)
        if self._pins.changed == "warn":
            return tools
        self.hidden |= dict.fromkeys(changed, "it has changed since it was pinned")
        return {name: tool for name, tool in tools.items() if name not in changed}

    async def _save(self) -> None:
        async with self._saving:  # so that the last one has all of them
            try:
                await anyio.to_thread.run_sync(self._pins.save, dict(self._pins.known))
            except ConfigError as error:
                self._log.error("the pins of an MCP server cannot be stored", server=self._server, why=str(error))

    async def _as_hooks_leave(self, tools: dict[str, Tool], *, last: bool) -> dict[str, Tool]:
        """The tools after before_llm. Tools that hooks add come on the `last` page of the list."""
        shown = [function_of(self._prefix + name, tool) for name, tool in tools.items()]
        session = self._session
        request = LLMRequest(
            meta=Meta(agent_id=session.agent_id, session_key=session.id, source="mcp"),
            context={"mcp_server": self._server, "mcp_method": "tools/list"},
            tools=shown,
        )
        outcome = await session.host.before_llm(request)
        if outcome.action not in {words.CONTINUE, words.MODIFY}:
            raise RefusedLineError(f"a hook refused the list of tools: {outcome.reason_for_llm}")
        if outcome.payload.tools == shown:
            return tools
        before = dict(zip((one["function"]["name"] for one in shown), shown, strict=True))
        left: dict[str, Tool] = {}
        for edited in outcome.payload.tools:
            function = edited.get("function") or edited
            name = function.get("name")
            if name in before:
                own = str(name).removeprefix(self._prefix)
                left[own] = tools[own] if edited == before[name] else {**tools[own], **tool_of(own, function)}
            elif type(name) is str and name not in tools and last:
                self._added.add(name)
                left[name] = tool_of(name, function)
        return left


def _flaw(result: Any) -> str:
    if type(result) is not dict:
        return "it is not an object"
    tools = result.get("tools")
    if type(tools) is not list or not all(type(tool) is dict and type(tool.get("name")) is str for tool in tools):
        return "its tools are not a list of objects with names"
    if len({tool["name"] for tool in tools}) < len(tools):
        return "it has two tools of one name"
    return same_names(result, LIST) or next(filter(None, (same_names(tool, TOOL) for tool in tools)), "")


def _hints(tool: Tool) -> dict[str, bool]:
    annotations = tool.get("annotations")
    told = annotations if type(annotations) is dict else {}
    return {name: value for name, value in told.items() if name in HINTS and type(value) is bool}


def function_of(name: str, tool: Tool) -> Tool:
    """A tool as hooks see it at before_llm."""
    parameters = tool.get("inputSchema") or {}
    function = {"name": name, "description": tool.get("description") or "", "parameters": parameters}
    return {"type": "function", "function": function}


def tool_of(name: str, function: Tool) -> Tool:
    """A function that hooks added or edited, as a tool of MCP."""
    schema = function.get("parameters") or {"type": "object"}
    return {"name": name, "description": function.get("description") or "", "inputSchema": schema}
