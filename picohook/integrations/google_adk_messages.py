"""Converts requests and responses of Google ADK to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .. import LLMRequest, calls_of, text_of
from . import chat, extra

with extra("google-adk"):
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.adk.models.llm_request import LlmRequest

OPTIONS = frozenset({"temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed", "candidate_count"})
"""The fields of a request's configuration that hooks see as options."""


def shown_request(request: LlmRequest) -> LLMRequest:
    """Returns a request as hooks see it."""
    config = request.config.model_dump(include=set(OPTIONS), exclude_none=True)
    return LLMRequest(
        model=request.model or "",
        messages=[message for message, _ in _messages(request.contents)],
        tools=[_tool(declared) for declared in _functions(request)],
        options=config,
        system_prompt=_system_prompt(request.config.system_instruction),
    )


def with_edits(request: LlmRequest, shown: LLMRequest, edited: LLMRequest) -> LlmRequest:
    """Returns the request with the changes of hooks. Anything unchanged is the framework's own object.

    Raises `PicohookError` for an added tool that is not a function.
    """
    contents, config = request.contents, request.config.model_copy()
    if edited.messages != shown.messages:
        contents = _rebuilt_contents(contents, shown, edited)
    for name, value in chat.changed_options(shown, edited).items():
        if name in OPTIONS:
            setattr(config, name, value)
    if edited.system_prompt != shown.system_prompt:
        config.system_instruction = edited.system_prompt
    if edited.tools != shown.tools:
        functions = chat.edited_tools(shown, edited, _functions(request), _made_tool, _redescribed)
        others = [tool for tool in config.tools or () if not getattr(tool, "function_declarations", None)]
        config.tools = [*others, *([types.Tool(function_declarations=functions)] if functions else [])]
    return request.model_copy(update={"contents": contents, "config": config})


def _made_tool(function: chat.Message) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(
        name=function["name"], description=function["description"], parameters_json_schema=function["parameters"]
    )


def _functions(request: LlmRequest) -> list[types.FunctionDeclaration]:
    tools = (tool for tool in request.config.tools or () if isinstance(tool, types.Tool))
    return [declared for tool in tools for declared in tool.function_declarations or ()]


def _tool(declared: types.FunctionDeclaration) -> chat.Message:
    parameters: Mapping[str, Any] = declared.parameters_json_schema or {}
    if declared.parameters is not None:
        parameters = declared.parameters.model_dump(mode="json", exclude_none=True, by_alias=True)
    return chat.function_tool(declared.name or "", declared.description, parameters)


def _redescribed(declared: types.FunctionDeclaration, described: Mapping[str, Any]) -> types.FunctionDeclaration:
    shown = _tool(declared)["function"]
    changed: dict[str, Any] = {"description": described.get("description")}
    if described.get("parameters", shown["parameters"]) != shown["parameters"]:
        changed |= {"parameters": None, "parameters_json_schema": described["parameters"]}
    return declared.model_copy(update=changed)


def _system_prompt(instruction: Any) -> str | None:
    """Returns the text of a system instruction; None without one."""
    if instruction is None or isinstance(instruction, str):
        return instruction
    parts = instruction.parts if isinstance(instruction, types.Content) else instruction
    parts = parts if isinstance(parts, list) else [parts]
    return "".join(part if isinstance(part, str) else getattr(part, "text", None) or "" for part in parts or ())


# Messages.


def _messages(contents: Iterable[types.Content]) -> list[tuple[chat.Message, types.Content]]:
    """Returns the messages, each with its content. Every result of a tool is a message."""
    shown: list[tuple[chat.Message, types.Content]] = []
    for content in contents:
        parts = content.parts or []
        results = [part for part in parts if part.function_response is not None]
        shown += [(_result(part.function_response), types.Content(role=content.role, parts=[part])) for part in results]
        others = [part for part in parts if part.function_response is None]
        if others or not results:
            own = types.Content(role=content.role, parts=others) if results else content
            shown.append(({"role": "assistant" if content.role == "model" else "user", **shown_parts(others)}, own))
    return shown


def shown_parts(parts: Sequence[types.Part]) -> chat.Message:
    """Returns the parts of a content as hooks see them: text, thoughts and calls. Another part is shown by its kind."""
    texts = [part.text for part in parts if part.text is not None and not part.thought]
    others = [kind for part in parts if (kind := _other(part))]
    content: Any = [*({"type": "text", "text": text} for text in texts), *others] if others else "".join(texts)
    calls = [part.function_call for part in parts if part.function_call is not None]
    shown = [chat.function_call(call.name or "", json.dumps(call.args or {}), call.id or "") for call in calls]
    return chat.model_message(content, shown, "".join(part.text or "" for part in parts if part.thought))


def text_in(parts: Sequence[types.Part]) -> str:
    """Returns the text of a piece of a response, without thoughts."""
    return "".join(part.text or "" for part in parts if not part.thought)


def text_piece(text: str) -> LlmResponse:
    """Returns a piece of a response with this text and nothing else."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)


def _other(part: types.Part) -> chat.Message | None:
    if part.text is not None or part.function_call is not None:
        return None
    shown = part.model_dump(
        mode="json", exclude_none=True, exclude={"inline_data": {"data"}, "thought_signature": True}
    )
    return {"type": next(iter(shown), "part"), **shown}


def _result(response: types.FunctionResponse | None) -> chat.Message:
    assert response is not None
    return {
        "role": "tool",
        "tool_call_id": response.id or "",
        "name": response.name or "",
        "content": text_of_result(response.response),
    }


def text_of_result(result: Any) -> str:
    """Returns a tool's result as text: the text itself, or JSON."""
    if isinstance(result, dict) and len(result) == 1:
        result = result.get("result", result.get("error", result))
    return result if isinstance(result, str) else json.dumps(result, default=str)


def _rebuilt_contents(contents: list[types.Content], shown: LLMRequest, edited: LLMRequest) -> list[types.Content]:
    parts = [part for _, part in _messages(contents)]
    result: list[types.Content] = []
    for content in chat.rebuilt(shown.messages, parts, edited.messages, _made):
        # A model wants the results of one response in one content.
        if result and _has_results(result[-1]) and _has_results(content):
            result[-1] = types.Content(role=content.role, parts=[*(result[-1].parts or []), *(content.parts or [])])
        else:
            result.append(content)
    return result


def _has_results(content: types.Content) -> bool:
    return any(part.function_response is not None for part in content.parts or ())


def _made(message: chat.Message) -> types.Content:
    """Returns the content of a message that a hook wrote."""
    if message.get("role") == "tool":
        response = types.FunctionResponse(
            id=message.get("tool_call_id") or None, name=message.get("name"), response={"result": text_of(message)}
        )
        return types.Content(role="user", parts=[types.Part(function_response=response)])
    role = "model" if message.get("role") == "assistant" else "user"
    return types.Content(role=role, parts=with_answer([], message))


def with_answer(parts: Sequence[types.Part], answer: Mapping[str, Any]) -> list[types.Part]:
    """Returns the parts of a response with the changes of hooks. Anything unchanged is the framework's own object."""
    return chat.edited_parts(
        parts,
        shown_parts(parts),
        answer,
        {
            "reasoning_content": (
                lambda part: part.text is not None and bool(part.thought),
                lambda text: types.Part(text=text, thought=True),
            ),
            "content": (lambda part: part.text is not None and not part.thought, lambda text: types.Part(text=text)),
        },
        (lambda part: part.function_call is not None, _made_call),
    )


def _made_call(call: chat.Message) -> types.Part:
    (made,) = calls_of({"tool_calls": [call]})
    return types.Part(
        function_call=types.FunctionCall(id=made.tool_call_id or None, name=made.tool, args=made.arguments)
    )


def whole(responses: Sequence[LlmResponse]) -> LlmResponse:
    """Returns the complete responses of one request as one. Some models send their text and their calls one after the other."""
    contents = [response.content for response in responses if response.content is not None]
    if len(contents) <= 1:
        return responses[-1] if responses[-1].content is not None or not contents else responses[0]
    parts = [part for content in contents for part in content.parts or ()]
    return responses[-1].model_copy(update={"content": types.Content(role=contents[-1].role, parts=parts)})
