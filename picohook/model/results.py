"""Reads the result with which a hook responds in place of a tool or the model."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ..wire.answer_fields import is_set
from ..wire.answer_form import fold_case
from ..wire.did_you_mean import NAMES_TRIED
from .payloads import LLMRequest, LLMResponse, PlainModel, ToolCall, ToolResult

RESULT_FIELDS = frozenset(field.serialization_alias or name for name, field in ToolResult.model_fields.items())
"""The names of a tool result's fields in the protocol."""


def tool_result(_: ToolCall, result: Mapping[str, Any] | ToolResult) -> ToolResult:
    """The tool's result in a hook's answer. Raises `ValueError` if the answer has none."""
    if isinstance(result, ToolResult):
        return result
    result = fold_case(_mapping(result, ToolResult), RESULT_FIELDS)
    if is_set(result) and not RESULT_FIELDS & result.keys():
        names = ", ".join(f"`{name}`" for name in islice(result, NAMES_TRIED))
        raise ValueError(f"a tool's result has no {names}: put the text for the model into `for_llm`")
    return ToolResult.model_validate(
        {key: value for key, value in result.items() if key in RESULT_FIELDS and value is not None}
    )


def llm_response(request: LLMRequest, result: Mapping[str, Any] | LLMResponse) -> LLMResponse:
    """The model's response in a hook's answer, as a response to this request. Raises `ValueError` if the answer has none."""
    own: dict[str, Any] = {
        "meta": request.meta,
        "context": request.context,
        "channel": request.channel,
        "chat_id": request.chat_id,
    }
    if isinstance(result, LLMResponse):
        return result.model_copy(update={**own, "model": result.model or request.model})
    whole = fold_case(_mapping(result, LLMResponse), {"response"})
    response = whole["response"] if isinstance(whole.get("response"), dict) else dict(result)
    return LLMResponse(**own, model=request.model, response=response)


def _mapping(value: Any, kind: type[PlainModel]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"the result is {type(value).__name__}, not a mapping or {kind.__name__}")
    return dict(value)
