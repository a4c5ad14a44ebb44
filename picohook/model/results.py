"""Reads the result with which a hook responds in place of a tool or the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.answer_fields import is_set
from ..wire.answer_form import fold_case
from .payloads import FrozenModel, LLMRequest, LLMResponse, ToolCall, ToolResult

RESULT_FIELDS = frozenset(field.serialization_alias or name for name, field in ToolResult.model_fields.items())
"""The names of a tool result's fields in the protocol."""


def tool_result(_: ToolCall, given: Mapping[str, Any] | ToolResult) -> ToolResult:
    """The tool's result in a hook's answer. Raises `ValueError` if the answer has none."""
    if isinstance(given, ToolResult):
        return given
    given = fold_case(_mapping(given, ToolResult), RESULT_FIELDS)
    if is_set(given) and not RESULT_FIELDS & given.keys():
        names = ", ".join(f"`{name}`" for name in given)
        raise ValueError(f"a tool's result has no {names}: put the text for the model into `for_llm`")
    return ToolResult.model_validate(
        {key: value for key, value in given.items() if key in RESULT_FIELDS and value is not None}
    )


def llm_response(request: LLMRequest, given: Mapping[str, Any] | LLMResponse) -> LLMResponse:
    """The model's response in a hook's answer, as a response to this request. Raises `ValueError` if the answer has none."""
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


def _mapping(given: Any, kind: type[FrozenModel]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"the result is {type(given).__name__}, not a mapping or {kind.__name__}")
    return dict(given)
