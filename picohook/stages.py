"""Each stage as one row of data. A new stage is a row here, a payload in `models` and one line in `host`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import wire
from .models import LLMRequest, LLMResponse, Payload, ToolCall, ToolResult, ToolReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

P = TypeVar("P", bound=Payload)

FIXED = frozenset({"meta", "context", "tool_call_id"})
"""What of a payload no hook can change: where the call comes from, and which call it is."""

_EVERYWHERE = frozenset({wire.CONTINUE, wire.MODIFY, wire.ABORT_TURN, wire.HARD_ABORT})


@dataclass(frozen=True, slots=True)
class Stage(Generic[P]):
    """One point of an agent's turn at which hooks are asked."""

    name: str
    payload: type[P]
    carries: str
    """The field of a reply that carries the edited payload."""
    part: str | None = None
    """The one field of the payload that can be edited; None: all but what is fixed."""
    actions: frozenset[str] = _EVERYWHERE
    """What a hook may decide here."""
    result: Callable[[P, Mapping[str, Any]], Any] | None = None
    """Makes the result that stands from what came with `respond`."""

    @property
    def method(self) -> str:
        """The name on the wire."""
        return f"hook.{self.name}"

    @property
    def approves(self) -> bool:
        """Whether this stage asks for a yes, and any failure is a no."""
        return not self.actions

    def edit(self, payload: P, changes: Mapping[str, Any], patch: Mapping[str, Any] | None = None) -> P:
        """The payload with the changes applied: the same object when they change nothing.

        Fields that are present replace the current ones; absent ones and null stay. In a merge patch null removes.
        Raises `ValueError` (pydantic's) when the result is not a payload.
        """
        current = payload.wire()
        target = current if self.part is None else current[self.part]
        given = {key: value for key, value in self._inner(changes).items() if value is not None}
        edited = {**target, **given} if patch is None else merge_patch({**target, **given}, self._inner(patch))
        if edited == target:
            return payload
        return self._rebuild(payload, edited)

    def _inner(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Both shapes in the wild: the edited part itself, or all the params with that part under its own name."""
        if self.part is not None and isinstance(nested := changes.get(self.part), dict):
            return nested
        return changes

    def _rebuild(self, payload: P, edited: Mapping[str, Any]) -> P:
        fields: dict[str, Any]
        if self.part is None:
            known = self.payload.model_fields
            fields = {key: value for key, value in edited.items() if key in known and key not in FIXED}
            kept = {key: value for key, value in payload.__dict__.items() if key in FIXED}
        else:
            fields = {self.part: known_fields(ToolResult, edited) if self.part == "result" else dict(edited)}
            kept = payload.__dict__
        return self.payload.model_validate({**kept, **fields})


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


def _said(request: LLMRequest, *, system: bool) -> list[dict[str, Any]]:
    return [message for message in request.messages if (message.get("role") == "system") is system]


def known_fields(model: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What of the given fields the model knows and has a value for."""
    names = {field.serialization_alias or name for name, field in model.model_fields.items()}
    return {key: value for key, value in given.items() if key in names and value is not None}


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, without changing the target."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _tool_result(_: ToolCall, given: Mapping[str, Any]) -> ToolResult:
    return ToolResult.model_validate(known_fields(ToolResult, given))


def _llm_response(request: LLMRequest, given: Mapping[str, Any]) -> LLMResponse:
    response = given["response"] if isinstance(given.get("response"), dict) else dict(given)
    return LLMResponse(
        meta=request.meta,
        context=request.context,
        channel=request.channel,
        chat_id=request.chat_id,
        model=request.model,
        response=response,
    )


BEFORE_LLM: Stage[LLMRequest] = Stage(
    "before_llm", LLMRequest, "request", actions=_EVERYWHERE | {wire.RESPOND, wire.RETRY}, result=_llm_response
)
AFTER_LLM: Stage[LLMResponse] = Stage(
    "after_llm", LLMResponse, "response", part="response", actions=_EVERYWHERE | {wire.RETRY}
)
BEFORE_TOOL: Stage[ToolCall] = Stage(
    "before_tool",
    ToolCall,
    "call",
    actions=_EVERYWHERE | {wire.RESPOND, wire.DENY, wire.PAUSE},
    result=_tool_result,
)
APPROVE_TOOL: Stage[ToolCall] = Stage("approve_tool", ToolCall, "call", actions=frozenset())
AFTER_TOOL: Stage[ToolReturn] = Stage("after_tool", ToolReturn, "result", part="result")

STAGES: dict[str, Stage[Any]] = {
    stage.name: stage for stage in (BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, APPROVE_TOOL, AFTER_TOOL)
}
