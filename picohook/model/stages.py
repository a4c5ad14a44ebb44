"""Each stage as one row of data. A new stage is a row here, a payload in `models` and one line in `host`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..wire import words
from ..wire.answer_fields import is_set
from ..wire.answer_form import AnswerForm, fold_case
from ..wire.merge import merge_patch
from .payloads import (
    Compaction,
    Finish,
    LLMRequest,
    LLMResponse,
    Model,
    Payload,
    Prompt,
    ToolCall,
    ToolResult,
    ToolReturn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

P = TypeVar("P", bound=Payload)

FIXED = frozenset({"meta", "context", "tool_call_id"})
"""What of a payload no hook can change: where the call comes from, and which call it is."""

_RESULT_FIELDS = frozenset(field.serialization_alias or name for name, field in ToolResult.model_fields.items())

_EVERYWHERE = frozenset({words.CONTINUE, words.MODIFY, words.ABORT_TURN, words.HARD_ABORT})


@dataclass(frozen=True, slots=True)
class Stage(Generic[P]):
    """One point of an agent's turn at which hooks are asked."""

    name: str
    payload: type[P]
    carries: str
    """The field of a reply that carries the edited payload; empty where `fields` are carried directly."""
    part: str | None = None
    """The one field of the payload that can be edited, where its content is what a reply carries."""
    fields: tuple[str, ...] = ()
    """The fields that can be edited, where a reply carries them by their own names; none: all but what is fixed."""
    actions: frozenset[str] = _EVERYWHERE
    """What a hook may decide here."""
    result: Callable[[P, Any], Any] | None = None
    """Makes the result that stands from what came with `respond`."""
    method: str = field(init=False)
    """The name on the wire."""
    approves: bool = field(init=False)
    """Whether this stage asks for a yes, and any failure is a no."""
    form: AnswerForm = field(init=False)
    """What an answer can hold."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", f"hook.{self.name}")
        object.__setattr__(self, "approves", not self.actions)
        editable = {"result": _RESULT_FIELDS, "response": None}[self.part] if self.part else self._editables
        form = AnswerForm(
            self.name, carries=self.carries, part=self.part or "", editable=editable, actions=self.actions
        )
        object.__setattr__(self, "form", form)

    def given(self, payload: P | Mapping[str, Any]) -> P:
        """The payload, or the one that a mapping describes. Raises pydantic's `ValidationError`."""
        return payload if isinstance(payload, self.payload) else self.payload.model_validate(payload)

    def edit(self, payload: P, changes: Mapping[str, Any], patch: Mapping[str, Any] | None = None) -> P:
        """The payload with the changes applied: the same object when they change nothing.

        Fields that are present replace the current ones; absent ones and null stay. In a merge patch null removes.
        Raises `ValueError` (pydantic's) when the result is not a payload, or nothing of what was given can be edited.
        """
        target = self._editable(payload.wire())
        given = {key: value for key, value in self._named(changes, target).items() if value is not None}
        edited = {**target, **given}
        if patch is not None:
            edited = merge_patch(edited, self._named(patch, target))
        if edited == target:
            self._require_editable(changes, patch)
        if edited == target and _alike(edited, target):
            return payload
        if self.part is not None:
            return self.payload.model_validate({**payload.__dict__, self.part: edited})
        kept = {key: value for key, value in payload.__dict__.items() if key not in self._editables}
        return self.payload.model_validate({**kept, **edited})

    def _require_editable(self, changes: Mapping[str, Any], patch: Mapping[str, Any] | None) -> None:
        """Raise `ValueError` where something is said, and nothing of it can be edited."""
        given = [changes] if is_set(dict(changes)) else []
        given += [patch] if patch else []  # in which a null says something
        if given and not any(map(self.form.known, given)):
            names = ", ".join(f"`{name}`" for one in given for name in one)
            raise ValueError(f"{self.name} cannot change {names}")

    def _named(self, given: Mapping[str, Any], target: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of it can be edited, with the names that the payload has, where they can be any."""
        editable = self._editable(given)
        return editable if self.form.editable is not None else fold_case(dict(editable), target.keys())

    @property
    def _editables(self) -> Collection[str]:
        return self.fields or self.payload.model_fields.keys() - FIXED

    def _editable(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of it can be edited. Of a part both shapes in the wild: itself, or all params with it under its own name."""
        if self.part is None:
            return {key: value for key, value in given.items() if key in self._editables}
        nested = given.get(self.part)
        part = nested if isinstance(nested, dict) else given
        return {key: value for key, value in part.items() if key in _RESULT_FIELDS} if self.part == "result" else part


def restrict(before: P, after: P, may_edit: Sequence[str]) -> tuple[P, list[str]]:
    """Take back what of an edited before_llm request a hook may not edit; with it, the names of what was taken back."""
    if after is before or not isinstance(before, LLMRequest) or not isinstance(after, LLMRequest):
        return after, []
    back: dict[str, Any] = {}
    refused: list[str] = []
    if "tools" not in may_edit and after.tools != before.tools:
        back["tools"] = before.tools
        refused.append("tools")
    if "system" not in may_edit and after.system_prompt != before.system_prompt:
        back["system_prompt"] = before.system_prompt
        refused.append("system_prompt")
    for part, of_system in (("system", True), ("messages", False)):
        if part not in may_edit and _said(after, system=of_system) != _said(before, system=of_system):
            back["messages"] = before.messages
            refused.append("system messages" if of_system else "messages")
    if not back:
        return after, []
    left = after.model_copy(update=back)
    return (before if left == before else left), refused


def _said(request: LLMRequest, *, system: bool) -> list[tuple[int, dict[str, Any]]]:
    """The messages of the system, each with its place, or those of all others."""
    return [
        (place if system else 0, message)
        for place, message in enumerate(request.messages)
        if (message.get("role") == "system") is system
    ]


def _alike(one: Any, other: Any) -> bool:
    """Whether two equal values are equal as JSON too, where true is not 1."""
    if isinstance(one, dict):
        return all(_alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return all(map(_alike, one, other))
    return isinstance(one, bool) is isinstance(other, bool)


def _tool_result(_: ToolCall, given: Mapping[str, Any] | ToolResult) -> ToolResult:
    if isinstance(given, ToolResult):
        return given
    given = fold_case(_mapping(given, ToolResult), _RESULT_FIELDS)
    if is_set(given) and not _RESULT_FIELDS & given.keys():
        names = ", ".join(f"`{name}`" for name in given)
        raise ValueError(f"a tool's result has no {names}: what the model is told is its `for_llm`")
    return ToolResult.model_validate(
        {key: value for key, value in given.items() if key in _RESULT_FIELDS and value is not None}
    )


def _llm_response(request: LLMRequest, given: Mapping[str, Any] | LLMResponse) -> LLMResponse:
    own: dict[str, Any] = {
        "meta": request.meta,
        "context": request.context,
        "channel": request.channel,
        "chat_id": request.chat_id,
    }
    if isinstance(given, LLMResponse):
        return given.model_copy(update={**own, "model": given.model or request.model})
    whole = fold_case(_mapping(given, LLMResponse), {"response"})
    response = whole["response"] if isinstance(whole.get("response"), dict) else dict(given)
    return LLMResponse(**own, model=request.model, response=response)


def _mapping(given: Any, kind: type[Model]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"the result is {type(given).__name__}, and neither a mapping nor {kind.__name__}")
    return dict(given)


BEFORE_LLM: Stage[LLMRequest] = Stage(
    "before_llm", LLMRequest, "request", actions=_EVERYWHERE | {words.RESPOND, words.RETRY}, result=_llm_response
)
AFTER_LLM: Stage[LLMResponse] = Stage(
    "after_llm", LLMResponse, "response", part="response", actions=_EVERYWHERE | {words.RETRY}
)
BEFORE_TOOL: Stage[ToolCall] = Stage(
    "before_tool",
    ToolCall,
    "call",
    actions=_EVERYWHERE | {words.RESPOND, words.DENY, words.PAUSE},
    result=_tool_result,
)
APPROVE_TOOL: Stage[ToolCall] = Stage("approve_tool", ToolCall, "call", actions=frozenset())
AFTER_TOOL: Stage[ToolReturn] = Stage("after_tool", ToolReturn, "result", part="result")
BEFORE_PROMPT: Stage[Prompt] = Stage(
    "before_prompt", Prompt, "", fields=("prompt", "messages"), actions=_EVERYWHERE | {words.RETRY}
)
BEFORE_FINISH: Stage[Finish] = Stage(
    "before_finish", Finish, "", fields=("messages",), actions=_EVERYWHERE | {words.RETRY, words.PAUSE}
)
BEFORE_COMPACT: Stage[Compaction] = Stage(
    "before_compact", Compaction, "", fields=("messages",), actions=_EVERYWHERE | {words.SKIP}
)
AFTER_COMPACT: Stage[Compaction] = Stage("after_compact", Compaction, "", fields=("messages",))

STAGES: dict[str, Stage[Any]] = {
    stage.name: stage
    for stage in (
        BEFORE_PROMPT,
        BEFORE_LLM,
        AFTER_LLM,
        BEFORE_TOOL,
        APPROVE_TOOL,
        AFTER_TOOL,
        BEFORE_FINISH,
        BEFORE_COMPACT,
        AFTER_COMPACT,
    )
}
