"""The payloads of the stages, as an embedder builds and reads them.

`wire()` returns the plain JSON form of a payload, in the order of the protocol, without the fields that are None. A hook's edit
makes a new payload.
"""

import copy
from collections.abc import Iterable
from typing import Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field

from .deferred import DeferredModel
from .trail import Notes, StageTrail

_UNCHANGEABLE = frozenset({str, int, float, bool, type(None)})
_set = object.__setattr__


def deep_copy(value: Any) -> Any:
    """A copy that shares nothing mutable with the value; the value itself if it cannot be copied."""
    try:
        return _copy_of(value)
    except Exception:  # an object of a program's own can fail in any way
        return value


def _copy_of(value: Any) -> Any:
    kind = type(value)
    if kind in _UNCHANGEABLE:
        return value
    if kind is dict:
        return {key: inside if type(inside) in _UNCHANGEABLE else _copy_of(inside) for key, inside in value.items()}
    if kind is list:
        return [inside if type(inside) in _UNCHANGEABLE else _copy_of(inside) for inside in value]
    if isinstance(value, PlainModel):
        return value.deep_copy()
    return copy.deepcopy(value)


class PlainModel(DeferredModel):
    """The base of all payloads. An unknown field is an error, and so is a wrong value that is assigned to a field.

    Lists fail fast, because a hook can send a hundred thousand wrong values in one.
    """

    model_config = ConfigDict(validate_assignment=True, populate_by_name=True, serialize_by_alias=True)

    def wire(self) -> dict[str, Any]:
        """The plain JSON form, without the fields that are None."""
        return {name: value for name, value in self.__dict__.items() if value is not None}

    def __copy__(self) -> Self:
        if self.__pydantic_extra__ is not None or self.__pydantic_private__ is not None:
            return super().__copy__()
        made = self.__new__(type(self))  # what pydantic does, in a third of the time: each call has several copies
        _set(made, "__dict__", self.__dict__.copy())
        _set(made, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made

    def deep_copy(self) -> Self:
        """A copy that shares nothing mutable with this one. If an object in it cannot be copied, raises that object's error."""
        made = self.__copy__()
        own = made.__dict__
        for name, value in own.items():
            if type(value) not in _UNCHANGEABLE:
                own[name] = _copy_of(value)
        return made


class Meta(PlainModel):
    """The place of a payload in the agent's run. It is frozen, because copies of payloads share it."""

    model_config = ConfigDict(frozen=True)

    agent_id: str = Field(default="", validation_alias="AgentID", serialization_alias="AgentID")
    turn_id: str = Field(default="", validation_alias="TurnID", serialization_alias="TurnID")
    parent_turn_id: str = Field(default="", validation_alias="ParentTurnID", serialization_alias="ParentTurnID")
    session_key: str = Field(default="", validation_alias="SessionKey", serialization_alias="SessionKey")
    iteration: int = Field(default=0, validation_alias="Iteration", serialization_alias="Iteration")
    trace_path: str = Field(default="", validation_alias="TracePath", serialization_alias="TracePath")
    source: str = Field(default="", validation_alias="Source", serialization_alias="Source")
    traceparent: str = ""
    """The trace and the span, as a W3C `traceparent`."""

    def deep_copy(self) -> Self:
        return self if type(self) is Meta else super().deep_copy()

    def wire(self) -> dict[str, Any]:
        # Written out, because pydantic's attribute access is slow, and every question and event needs this.
        own = self.__dict__
        shown = {
            "AgentID": own["agent_id"],
            "TurnID": own["turn_id"],
            "ParentTurnID": own["parent_turn_id"],
            "SessionKey": own["session_key"],
            "Iteration": own["iteration"],
            "TracePath": own["trace_path"],
            "Source": own["source"],
        }
        if own["traceparent"]:
            shown["traceparent"] = own["traceparent"]
        return shown


NO_META = Meta.model_construct()  # which builds no model


class Payload(PlainModel):
    """The fields of every stage's payload: its place in the run, and the user's channel."""

    meta: Meta = NO_META
    context: dict[str, Any] | None = None
    channel: str = ""
    chat_id: str = ""

    def wire(self, meta: Any = None) -> dict[str, Any]:
        """The plain JSON form, without the fields that are None. `meta` takes the place of the plain form of its own."""
        own = self.__dict__  # without pydantic's slow attribute access
        plain = {}
        for name, value in own.items():
            if value is not None:
                plain[name] = value  # noqa: PERF403 - each question needs it, and a comprehension takes longer
        plain["meta"] = meta or own["meta"].wire()
        return plain


class ToolCall(Payload):
    """A tool that the model wants to call: the payload of before_tool and approve_tool."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    tool_call_id: str | None = None
    tool_kind: Literal["readonly", "write", "execute"] | None = None
    affected_paths: list[str] | None = Field(default=None, fail_fast=True)


class ToolResult(PlainModel):
    """The result of a tool, with texts for the model and for the user."""

    for_llm: str = ""
    for_user: str = ""
    silent: bool = False
    is_error: bool = False
    async_: bool = Field(default=False, validation_alias="async", serialization_alias="async")
    media: list[Any] = Field(default_factory=list)
    artifact_tags: list[str] = Field(default_factory=list, fail_fast=True)
    response_handled: bool = False
    __slots__ = ("_trails",)

    @property
    def trails(self) -> tuple[StageTrail, ...]:
        """The trails of the stages that led to it, if `run_tool` or a turn returned it. They are not a field."""
        return _trails_of(self)

    def wire(self) -> dict[str, Any]:
        return {("async" if name == "async_" else name): value for name, value in self.__dict__.items()}


class ToolReturn(ToolCall):
    """A call with its result: the payload of after_tool."""

    result: ToolResult
    duration: int = 0
    """The time that the tool ran, in nanoseconds."""
    error: str | None = None

    def wire(self, meta: Any = None) -> dict[str, Any]:
        return {**super().wire(meta), "result": self.result.wire()}


class Prompt(Payload):
    """A message of the user: the payload of before_prompt."""

    prompt: str
    messages: list[dict[str, Any]] = Field(default_factory=list, fail_fast=True)


class LLMRequest(Payload):
    """A request to the model: the payload of before_llm."""

    model: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list, fail_fast=True)
    tools: list[dict[str, Any]] = Field(default_factory=list, fail_fast=True)
    options: dict[str, Any] = Field(default_factory=dict)
    system_prompt: str | None = None
    graceful_terminal: bool = False

    def with_notes(self, notes: Iterable[Notes]) -> Self:
        """The request with the context and the messages that hooks add to it."""
        notes = tuple(notes)
        context = [note.additional_context for note in notes if note.additional_context]
        injected = [message for note in notes for message in note.inject_messages]
        if not context and not injected:
            return self
        prompt = "\n\n".join([*([self.system_prompt] if self.system_prompt else []), *context])
        return self.model_copy(
            update={"system_prompt": prompt or self.system_prompt, "messages": [*self.messages, *injected]}
        )


class LLMResponse(Payload):
    """The answer of the model: the payload of after_llm."""

    model: str = ""
    response: dict[str, Any]
    messages: list[dict[str, Any]] | None = Field(default=None, fail_fast=True)
    partial: bool | None = None
    """True while the model is still writing: the response is the text so far."""
    released: int | None = None
    """The number of characters of the text that the user has seen already, if any. Hooks cannot change these."""
    __slots__ = ("_trails",)

    @property
    def trails(self) -> tuple[StageTrail, ...]:
        """The trails of the stages that led to it, if `run_llm` or a turn returned it. They are not a field."""
        return _trails_of(self)


class Finish(Payload):
    """A turn that is about to end with this response: the payload of before_finish."""

    prompt: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list, fail_fast=True)
    response: dict[str, Any] = Field(default_factory=dict)
    system_prompt: str | None = None
    model: str | None = None


class Compaction(Payload):
    """The messages before or after a compaction: the payload of before_compact and after_compact."""

    scope: Literal["micro", "auto"]
    messages: list[dict[str, Any]] = Field(default_factory=list, fail_fast=True)
    system_prompt: str | None = None
    model: str | None = None


R = TypeVar("R", ToolResult, LLMResponse)


def traced(result: R, trails: Iterable[StageTrail]) -> R:
    """A copy of the result with these trails. Its JSON form and comparisons ignore them."""
    made = result.__copy__()  # a tool may return the same object every time
    object.__setattr__(made, "_trails", tuple(trails))
    return made


def _trails_of(result: ToolResult | LLMResponse) -> tuple[StageTrail, ...]:
    try:
        return object.__getattribute__(result, "_trails")  # type: ignore[no-any-return] # a slot, and no field
    except AttributeError:
        return ()
