"""Converts requests and responses of Google ADK to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .. import LLMRequest, text_of
from . import extra
from .agent_run import Message, added_functions, function_call, function_tool, rebuilt, tool_call

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
        contents = _rebuilt_contents(contents, edited.messages)
    for name in (edited.options.keys() | shown.options.keys()) & OPTIONS:
        if edited.options.get(name) != shown.options.get(name):
            setattr(config, name, edited.options.get(name))
    if edited.system_prompt != shown.system_prompt:
        config.system_instruction = edited.system_prompt
    if edited.tools != shown.tools:
        known = {declared.name: declared for declared in _functions(request)}
        known |= {declared.name: declared for declared in added_tools(shown, edited)}
        described = [tool.get("function") or tool for tool in edited.tools]
        functions = [
            _redescribed(known[function["name"]], function) for function in described if function.get("name") in known
        ]
        others = [tool for tool in config.tools or () if not getattr(tool, "function_declarations", None)]
        config.tools = [*others, *([types.Tool(function_declarations=functions)] if functions else [])]
    return request.model_copy(update={"contents": contents, "config": config})


def added_tools(shown: LLMRequest, edited: LLMRequest) -> list[types.FunctionDeclaration]:
    """Returns the tools that hooks added. Hooks answer their calls."""
    return [
        types.FunctionDeclaration(
            name=described["name"],
            description=described.get("description"),
            parameters_json_schema=described.get("parameters") or {"type": "object", "properties": {}},
        )
        for described in added_functions(shown.tools, edited.tools)
    ]


def _functions(request: LlmRequest) -> list[types.FunctionDeclaration]:
    tools = (tool for tool in request.config.tools or () if isinstance(tool, types.Tool))
    return [declared for tool in tools for declared in tool.function_declarations or ()]


def _tool(declared: types.FunctionDeclaration) -> Message:
    parameters: Mapping[str, Any] = declared.parameters_json_schema or {}
    if declared.parameters is not None:
        parameters = declared.parameters.model_dump(mode="json", exclude_none=True, by_alias=True)
    return function_tool(declared.name or "", declared.description, parameters)


def _redescribed(declared: types.FunctionDeclaration, described: Mapping[str, Any]) -> types.FunctionDeclaration:
    shown = _tool(declared)["function"]
    if described == shown:
        return declared
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


def _messages(contents: Iterable[types.Content]) -> list[tuple[Message, types.Content]]:
    """Returns the messages, each with its content. Every result of a tool is a message."""
    shown: list[tuple[Message, types.Content]] = []
    for content in contents:
        parts = content.parts or []
        results = [part for part in parts if part.function_response is not None]
        shown += [(_result(part.function_response), types.Content(role=content.role, parts=[part])) for part in results]
        others = [part for part in parts if part.function_response is None]
        if others or not results:
            own = types.Content(role=content.role, parts=others) if results else content
            shown.append(({"role": "assistant" if content.role == "model" else "user", **shown_parts(others)}, own))
    return shown


def shown_parts(parts: Sequence[types.Part]) -> Message:
    """Returns the parts of a content as hooks see them: text, thoughts and calls. Another part is shown by its kind."""
    texts = [part.text for part in parts if part.text is not None and not part.thought]
    others = [kind for part in parts if (kind := _other(part))]
    content: Any = [*({"type": "text", "text": text} for text in texts), *others] if others else "".join(texts)
    message: Message = {"content": content}
    if thoughts := "".join(part.text or "" for part in parts if part.thought):
        message["reasoning_content"] = thoughts
    if calls := [part.function_call for part in parts if part.function_call is not None]:
        message["tool_calls"] = [
            function_call(call.name or "", json.dumps(call.args or {}), call.id or "") for call in calls
        ]
    return message


def text_in(parts: Sequence[types.Part]) -> str:
    """Returns the text of a piece of a response, without thoughts."""
    return "".join(part.text or "" for part in parts if not part.thought)


def text_piece(text: str) -> LlmResponse:
    """Returns a piece of a response with this text and nothing else."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)


def _other(part: types.Part) -> Message | None:
    if part.text is not None or part.function_call is not None:
        return None
    shown = part.model_dump(
        mode="json", exclude_none=True, exclude={"inline_data": {"data"}, "thought_signature": True}
    )
    return {"type": next(iter(shown), "part"), **shown}


def _result(response: types.FunctionResponse | None) -> Message:
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


def _rebuilt_contents(contents: Sequence[types.Content], edited: Sequence[Message]) -> list[types.Content]:
    pairs = _messages(contents)
    result: list[types.Content] = []
    for content in rebuilt([shown for shown, _ in pairs], [own for _, own in pairs], edited, _made):
        # A model wants the results of one response in one content.
        if result and _has_results(result[-1]) and _has_results(content):
            result[-1] = types.Content(role=content.role, parts=[*(result[-1].parts or []), *(content.parts or [])])
        else:
            result.append(content)
    return result


def _has_results(content: types.Content) -> bool:
    return any(part.function_response is not None for part in content.parts or ())


def _made(message: Message) -> types.Content:
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
    shown = shown_parts(parts)
    left = list(parts)
    for key, thought in (("reasoning_content", True), ("content", False)):
        if (answer.get(key) or "") != shown.get(key, ""):
            text = text_of({"content": answer.get(key)})
            place = next((place for place, part in enumerate(left) if _is_text(part, thought=thought)), len(left))
            left = [part for part in left if not _is_text(part, thought=thought)]
            left[place:place] = [types.Part(text=text, thought=thought or None)] if text else []
    calls = answer.get("tool_calls") or []
    if calls != shown.get("tool_calls", []):
        own = [part for part in left if part.function_call is not None]
        others = [part for part in left if part.function_call is None]
        left = [*others, *rebuilt(shown.get("tool_calls", []), own, calls, _made_call)]
    return left


def _is_text(part: types.Part, *, thought: bool) -> bool:
    return part.text is not None and bool(part.thought) is thought


def _made_call(call: Message) -> types.Part:
    function = call.get("function") or call
    made = tool_call(function.get("name", ""), function.get("arguments"), call.get("id"))
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
