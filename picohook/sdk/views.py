"""JSON objects of the protocol with their fields as attributes: what calls and events are made of."""

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
"""What a field holds that was not sent, by its annotation; None, where that allows it."""


class View:
    """A JSON object. The fields that a class annotates are there whether they were sent or not; `params` has what was."""

    __slots__ = ("params",)

    params: dict[str, Any]
    _names: ClassVar[dict[str, str]] = {}
    """Fields that have another name on the wire."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def __init_subclass__(cls) -> None:
        for name, kind in cls.__annotations__.items():
            if not kind.startswith("ClassVar"):
                setattr(cls, name, cls._field(cls._names.get(name, name), kind))

    @classmethod
    def _field(cls, key: str, kind: str) -> property:
        return _field(key, EMPTY.get(kind))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params!r})"


def _field(key: str, empty: Callable[[], Any] | None) -> property:
    def field(view: View) -> Any:
        value = view.params.get(key)
        if value is None and empty is not None:
            value = view.params[key] = empty()  # so that what is put into it is kept
        return value

    return property(field)


class Meta(View):
    """Where in the agent's run something happens."""

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
    """The trace and the span that this is part of, as W3C's Trace Context writes them; empty where nobody traces."""


class ToolResult(View):
    """What a tool returned: for the model, and for the user."""

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
    """Something that happened in the agent. `params` has all that was sent, in whichever dialect."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """Its name, like `tool_exec_end`."""
        kind = str(self.params.get("Kind") or self.params.get("kind") or "")
        return words.RUNTIME_KINDS.get(kind, kind)

    @property
    def payload(self) -> dict[str, Any]:
        """What it says, field by field."""
        return self.params.get("Payload") or self.params.get("payload") or {}

    @property
    def meta(self) -> Meta:
        """Where it happened."""
        said = self.params.get("Meta")
        if said is None:
            names = Meta._names  # noqa: SLF001
            parts = (self.params.get("scope"), self.params.get("correlation"))
            said = {names[key]: value for part in parts for key, value in (part or {}).items() if key in names}
        return Meta(said)
