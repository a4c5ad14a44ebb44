"""Converts Pydantic AI's requests and answers to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_core import to_jsonable_python

from .. import LLMRequest, calls_of, text_of
from . import chat, extra

with extra("pydantic-ai"):
    from pydantic_ai.messages import (
        InstructionPart,
        ModelRequest,
        ModelResponse,
        RetryFeedbackPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters

_Part = tuple[ModelRequest | None, Any]
"""A part with its request, or None with a whole response."""


class ModelInput(NamedTuple):
    """A request to a model: the arguments of Pydantic AI's models."""

    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters

    def shown(self, model: str, settings: Mapping[str, Any]) -> LLMRequest:
        """Returns the request as hooks see it. The model's own settings hold unless the request has others."""
        parts = self.parameters.instruction_parts
        return LLMRequest(
            model=model,
            messages=[message for message, _ in _messages(self.messages)],
            tools=[_tool(tool) for tool in self.parameters.function_tools],
            options=to_jsonable_python({**settings, **(self.settings or {})}, fallback=str),
            system_prompt=InstructionPart.join(parts) if parts else None,
        )

    def edited(self, shown: LLMRequest, edited: LLMRequest) -> ModelInput:
        """Returns the request with the changes of hooks. Anything unchanged is the framework's own object."""
        messages, settings, parameters = self
        if edited.messages != shown.messages:
            messages = _rebuilt_messages(messages, shown, edited)
        if edited.options != shown.options:
            settings = cast(ModelSettings, chat.edited_settings(settings or {}, shown, edited))
        if edited.system_prompt != shown.system_prompt:
            parts = [InstructionPart(content=edited.system_prompt)] if edited.system_prompt else []
            parameters = replace(parameters, instruction_parts=parts)
        if edited.tools != shown.tools:
            tools = chat.edited_tools(shown, edited, parameters.function_tools, made_tool, _redescribed)
            parameters = replace(parameters, function_tools=tools)
        return ModelInput(messages, settings, parameters)


def made_tool(function: chat.Message) -> ToolDefinition:
    """Returns the tool that a hook added. The hook answers its calls."""
    return ToolDefinition(
        name=function["name"], description=function["description"], parameters_json_schema=function["parameters"]
    )


def _tool(tool: ToolDefinition) -> chat.Message:
    return chat.function_tool(tool.name, tool.description, tool.parameters_json_schema)


def _redescribed(tool: ToolDefinition, described: Mapping[str, Any]) -> ToolDefinition:
    parameters = described.get("parameters") or tool.parameters_json_schema
    return replace(tool, description=described.get("description"), parameters_json_schema=parameters)


# Messages.


def _messages(messages: Sequence[ModelMessage]) -> list[tuple[chat.Message, _Part]]:
    shown: list[tuple[chat.Message, _Part]] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            shown.append(({"role": "assistant", **shown_answer(message)}, (None, message)))
        else:
            shown += [(_part(part), (message, part)) for part in message.parts]
    return shown


def _part(part: Any) -> chat.Message:
    match part:
        case SystemPromptPart():
            return {"role": "system", "content": part.content}
        case UserPromptPart(content=str()):
            return {"role": "user", "content": part.content}
        case UserPromptPart():
            return {"role": "user", "content": [_item(item) for item in part.content]}
        case ToolReturnPart():
            content = part.model_response_str()
            return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}
        case RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
    return {"role": "system", "type": part.part_kind, "content": ""}  # a part for the framework alone


def shown_prompt(prompt: str | Sequence[Any] | None) -> str:
    """Returns the text of a prompt."""
    return text_of(_part(UserPromptPart(prompt or "")))


def _item(item: Any) -> chat.Message:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    shown = to_jsonable_python(item, fallback=str, exclude={"data"}, bytes_mode="base64")
    return {"type": item.kind, **shown} if isinstance(shown, dict) else {"type": item.kind}


def _rebuilt_messages(messages: Sequence[ModelMessage], shown: LLMRequest, edited: LLMRequest) -> list[ModelMessage]:
    parts = [part for _, part in _messages(messages)]
    result: list[ModelMessage] = []
    for request, part in chat.rebuilt(shown.messages, parts, edited.messages, _made):
        if isinstance(part, ModelResponse):
            result.append(part)
        elif result and isinstance(last := result[-1], ModelRequest):
            result[-1] = replace(last, parts=[*last.parts, part])
        else:
            result.append(replace(request, parts=[part]) if request else ModelRequest(parts=[part]))
    return result


def _made(message: chat.Message) -> _Part:
    """Returns the part, or the response, for a message that a hook wrote."""
    content = text_of(message)
    match message.get("role"):
        case "assistant":
            return None, with_answer(ModelResponse(parts=[]), message)
        case "system":
            return None, SystemPromptPart(content)
        case "tool":
            return None, ToolReturnPart(message.get("name", ""), content, message.get("tool_call_id", ""))
    return None, UserPromptPart(content)


def shown_answer(response: ModelResponse) -> chat.Message:
    """Returns a response as hooks see it."""
    return chat.model_message(
        "".join(part.content for part in response.parts if isinstance(part, TextPart)),
        [
            chat.function_call(part.tool_name, part.args_as_json_str(), part.tool_call_id)
            for part in response.parts
            if isinstance(part, ToolCallPart)
        ],
        "".join(part.content for part in response.parts if isinstance(part, ThinkingPart)),
    )


def with_answer(response: ModelResponse, answer: Mapping[str, Any]) -> ModelResponse:
    """Returns the response with the changes of hooks. Anything unchanged is the framework's own object."""
    parts: list[Any] = chat.edited_parts(
        response.parts,
        shown_answer(response),
        answer,
        {
            "reasoning_content": (lambda part: isinstance(part, ThinkingPart), ThinkingPart),
            "content": (lambda part: isinstance(part, TextPart), TextPart),
        },
        (lambda part: isinstance(part, ToolCallPart), _made_call),
    )
    return replace(response, parts=parts or [TextPart("")])


def _made_call(call: chat.Message) -> ToolCallPart:
    (made,) = calls_of({"tool_calls": [call]})
    return ToolCallPart(made.tool, made.arguments, *([made.tool_call_id] if made.tool_call_id else []))
