"""Tool ownership: a hook may answer for its own tools without approval."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..hooks.base import Hook
from ..model.payloads import LLMRequest, Payload, ToolCall

SESSIONS = 1024
"""Sessions that are remembered. The least recently used is forgotten first, and its hooks need approval again."""


@dataclass(slots=True)
class _Session:
    offered: set[str] = field(default_factory=set)
    claims: dict[str, set[str]] = field(default_factory=dict)


class Ownership:
    """The tools that each hook owns.

    A hook owns a tool if its configuration says that it provides the tool. It also owns one that it added in before_llm, in the
    same session, under a name that the runtime never offered there and that no other hook claims.
    """

    def __init__(self) -> None:
        self._provided: dict[str, set[str]] = {}
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def branch(self, session_key: str) -> "Ownership":
        """A copy that knows this session as it is now. Later changes to either do not affect the other."""
        copy = Ownership()
        known = self._sessions.get(session_key)
        if known is not None:
            claims = {tool: set(hooks) for tool, hooks in known.claims.items()}
            copy._sessions[session_key] = _Session(set(known.offered), claims)
        return copy

    def provide(self, provides: Mapping[str, Iterable[str]]) -> None:
        """Set the tools that each hook provides by its configuration."""
        self._provided = {}
        for hook, tools in provides.items():
            for tool in tools:
                self._provided.setdefault(tool, set()).add(hook)

    def offered(self, request: LLMRequest) -> None:
        """Note the tools that the runtime offers its model. From now on, no hook owns them by adding them."""
        names = tool_names(request.tools)
        if names or request.meta.session_key in self._sessions:
            self._session(request.meta.session_key).offered |= names

    def edited(self, hook: Hook, before: Payload, after: Payload) -> None:
        """Note a hook's edit. Of a request, the hook claims the tools that it added."""
        if not (isinstance(before, LLMRequest) and isinstance(after, LLMRequest)):
            return
        for name in tool_names(after.tools) - tool_names(before.tools):
            self._session(before.meta.session_key).claims.setdefault(name, set()).add(hook.name)

    def forget(self, session_key: str) -> None:
        self._sessions.pop(session_key, None)

    def owns(self, hook: str, call: Payload) -> bool:
        """Whether the hook may answer this call without approval."""
        if not isinstance(call, ToolCall):
            return False
        provided = self._provided.get(call.tool, set())
        if hook in provided:
            return True
        session = self._sessions.get(call.meta.session_key)
        if session is None or call.tool in session.offered:
            return False
        return session.claims.get(call.tool, set()) | provided == {hook}

    def _session(self, key: str) -> _Session:
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return session


def tool_names(tools: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names in tool definitions, in the shapes that providers use."""
    names = set()
    for tool in tools:
        function = tool.get("function")
        name = function.get("name") if isinstance(function, dict) else tool.get("name")
        if isinstance(name, str):
            names.add(name)
    return names
