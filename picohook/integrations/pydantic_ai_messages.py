"""Converts Pydantic AI's requests and answers to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_jsonable_python

from .. import LLMRequest
from . import extra
from .agent_run import Message, added_functions, function_call, function_tool, rebuilt, tool_call

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


def request_of(
    model: str, messages: list[ModelMessage], settings: Mapping[str, Any], parameters: ModelRequestParameters
) -> LLMRequest:
    """Returns a request as hooks see it."""
    instructions = InstructionPart.join(parameters.instruction_parts) if parameters.instruction_parts else None
    return LLMRequest(
        model=model,
        messages=[message for message, _ in _messages(messages)],
        tools=[_tool(tool) for tool in parameters.function_tools],
        options=to_jsonable_python(settings, fallback=str),
        system_prompt=instructions,
    )


def with_edits(
    edited: LLMRequest,
    shown: LLMRequest,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]:
    """Returns the request with the changes of hooks. Anything unchanged is the framework's own object."""
    if edited.messages != shown.messages:
        messages = _rebuilt_messages(messages, edited.messages)
    if edited.options != shown.options:
        changed = {key: value for key, value in edited.options.items() if shown.options.get(key) != value}
        same = {key: value for key, value in (settings or {}).items() if key in edited.options}
        settings = cast(ModelSettings, {**same, **changed})
    if edited.system_prompt != shown.system_prompt:
        parts = [InstructionPart(content=edited.system_prompt)] if edited.system_prompt else []
        parameters = replace(parameters, instruction_parts=parts)
    if edited.tools != shown.tools:
        known = {tool.name: tool for tool in (*parameters.function_tools, *added_tools(shown, edited))}
        described = [tool.get("function") or tool for tool in edited.tools]
        tools = [
            _redescribed(known[function["name"]], function) for function in described if function.get("name") in known
        ]
        parameters = replace(parameters, function_tools=tools)
    return messages, settings, parameters


def added_tools(shown: LLMRequest, edited: LLMRequest) -> list[ToolDefinition]:
    """Returns the tools that hooks added. Hooks answer their calls."""
    return [
        ToolDefinition(
            name=described["name"],
            description=described.get("description"),
            parameters_json_schema=described.get("parameters") or {"type": "object", "properties": {}},
        )
        for described in added_functions(shown.tools, edited.tools)
    ]


def _tool(tool: ToolDefinition) -> Message:
    return function_tool(tool.name, tool.description, tool.parameters_json_schema)


def _redescribed(tool: ToolDefinition, described: Mapping[str, Any]) -> ToolDefinition:
    if described == _tool(tool)["function"]:
        return tool
    parameters = described.get("parameters") or tool.parameters_json_schema
    return replace(tool, description=described.get("description"), parameters_json_schema=parameters)


# Messages.


def _messages(messages: Sequence[ModelMessage]) -> list[tuple[Message, _Part]]:
    shown: list[tuple[Message, _Part]] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            shown.append(({"role": "assistant", **shown_answer(message)}, (None, message)))
        else:
            shown += [(_part(part), (message, part)) for part in message.parts]
    return shown


def _part(part: Any) -> Message:
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


def _item(item: Any) -> Message:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    shown = to_jsonable_python(item, fallback=str, exclude={"data"}, bytes_mode="base64")
    return {"type": item.kind, **shown} if isinstance(shown, dict) else {"type": item.kind}


def _rebuilt_messages(messages: Sequence[ModelMessage], edited: Sequence[Message]) -> list[ModelMessage]:
    pairs = _messages(messages)
    result: list[ModelMessage] = []
    for request, part in rebuilt([shown for shown, _ in pairs], [own for _, own in pairs], edited, _made):
        if isinstance(part, ModelResponse):
            result.append(part)
        elif result and isinstance(last := result[-1], ModelRequest):
            result[-1] = replace(last, parts=[*last.parts, part])
        else:
            result.append(replace(request, parts=[part]) if request else ModelRequest(parts=[part]))
    return result


def _made(message: Message) -> _Part:
    """Returns the part, or the response, for a message that a hook wrote."""
    content = text_of(message.get("content") or "")
    match message.get("role"):
        case "assistant":
            return None, with_answer(ModelResponse(parts=[]), message)
        case "system":
            return None, SystemPromptPart(content)
        case "tool":
            return None, ToolReturnPart(message.get("name", ""), content, message.get("tool_call_id", ""))
    return None, UserPromptPart(content)


def shown_answer(response: ModelResponse) -> Message:
    """Returns a response as hooks see it."""
    message: Message = {"content": "".join(part.content for part in response.parts if isinstance(part, TextPart))}
    if thoughts := "".join(part.content for part in response.parts if isinstance(part, ThinkingPart)):
        message["reasoning_content"] = thoughts
    if calls := [part for part in response.parts if isinstance(part, ToolCallPart)]:
        message["tool_calls"] = [
            function_call(part.tool_name, part.args_as_json_str(), part.tool_call_id) for part in calls
        ]
    return message


def with_answer(response: ModelResponse, answer: Mapping[str, Any]) -> ModelResponse:
    """Returns the response with the changes of hooks. Anything unchanged is the framework's own object."""
    shown = shown_answer(response)
    parts = list(response.parts)
    for key, kind in (("reasoning_content", ThinkingPart), ("content", TextPart)):
        text = text_of(answer.get(key) or "")
        if text != shown.get(key, ""):
            index = next((index for index, part in enumerate(parts) if isinstance(part, kind)), len(parts))
            parts = [part for part in parts if not isinstance(part, kind)]
            parts[index:index] = [kind(text)] if text else []
    calls = answer.get("tool_calls") or []
    if calls != shown.get("tool_calls", []):
        own = [part for part in parts if isinstance(part, ToolCallPart)]
        others = [part for part in parts if not isinstance(part, ToolCallPart)]
        parts = [*others, *rebuilt(shown.get("tool_calls", []), own, calls, _made_call)]
    return replace(response, parts=parts or [TextPart("")])


def _made_call(call: Message) -> ToolCallPart:
    function = call.get("function") or call
    made = tool_call(function.get("name", ""), function.get("arguments"), call.get("id"))
    return ToolCallPart(made.tool, made.arguments, *([made.tool_call_id] if made.tool_call_id else []))


def text_of(content: Any) -> str:
    """Returns the text of a message's content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text", "") if isinstance(part, dict) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))
