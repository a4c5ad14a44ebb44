"""JSON objects of the protocol with their fields as attributes: the base of calls, and events."""

from __future__ import annotations

from ..wire import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

EMPTY: dict[str, Callable[[], Any]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "list[str]": list,
    "list[Any]": list,
    "list[dict[str, Any]]": list,
    "dict[str, Any]": dict,
}
"""The value of a field that was not sent, by its annotation. For any other annotation it is None."""


class View:
    """A JSON object. Its annotated fields always exist, sent or not. `params` has the fields that were sent."""

    __slots__ = ("params",)

    params: dict[str, Any]
    _names: ClassVar[dict[str, str]] = {}
    """The wire names of fields whose name differs there."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def __init_subclass__(cls) -> None:
        for name, kind in cls.__annotations__.items():
            if not kind.startswith("ClassVar"):
                setattr(cls, name, _field(cls._names.get(name, name), EMPTY.get(kind)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params!r})"


def _field(key: str, empty: Callable[[], Any] | None) -> property:
    def field(view: View) -> Any:
        value = view.params.get(key)
        if value is None and empty is not None:
            value = view.params[key] = empty()  # stored, so that a change in place is seen
        return value

    return property(field)


class Meta(View):
    """The agent, session, turn and iteration of a call or an event."""

    __slots__ = ()
    _names = {  # noqa: RUF012 - annotated where it is declared
        "agent_id": "AgentID",
        "turn_id": "TurnID",
        "parent_turn_id": "ParentTurnID",
        "session_key": "SessionKey",
        "iteration": "Iteration",
        "trace_path": "TracePath",
        "source": "Source",
        "traceparent": "traceparent",
    }

    agent_id: str
    turn_id: str
    parent_turn_id: str
    session_key: str
    iteration: int
    trace_path: str
    source: str
    traceparent: str
    """The trace and span in the form of W3C Trace Context; empty without tracing."""


class ToolResult(View):
    """The result of a tool: for the model, and for the user."""

    __slots__ = ()
    _names = {"async_": "async"}  # noqa: RUF012

    for_llm: str
    for_user: str
    silent: bool
    is_error: bool
    async_: bool
    media: list[Any]
    artifact_tags: list[str]
    response_handled: bool


class Event(View):
    """An event of the agent. `params` has the whole event in the dialect that the host speaks."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The name of the event, like `tool_exec_end`."""
        kind = str(self.params.get("Kind") or self.params.get("kind") or "")
        return words.RUNTIME_KINDS.get(kind, kind)

    @property
    def payload(self) -> dict[str, Any]:
        """The fields of the event."""
        return self.params.get("Payload") or self.params.get("payload") or {}

    @property
    def meta(self) -> Meta:
        """The agent, session, turn and iteration of the call."""
        meta = self.params.get("Meta")
        if meta is None:
            names = Meta._names  # noqa: SLF001
            parts = (self.params.get("scope"), self.params.get("correlation"))
            meta = {names[key]: value for part in parts for key, value in (part or {}).items() if key in names}
        return Meta(meta)
