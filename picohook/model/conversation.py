"""Messages in the chat-completions shape: a model's answer, the tool calls in it, and their results."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .payloads import ToolCall, ToolResult

UNREADABLE = "picohook.unreadable_arguments"
"""The argument that holds the model's text if it is not a JSON object."""


def assistant_message(response: Mapping[str, Any]) -> dict[str, Any]:
    """A model's response as a message of the conversation."""
    return {"role": "assistant", **response}


def answer_in(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the last message of the assistant, or None."""
    return next((message for message in reversed(messages) if message.get("role") == "assistant"), None)


def calls_of(response: Mapping[str, Any]) -> list[ToolCall]:
    """The tool calls in a response."""
    return [_call(call) for call in response.get("tool_calls") or ()]


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function") or call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _read(arguments)
    if not isinstance(arguments, dict):
        arguments = {UNREADABLE: arguments} if arguments is not None else {}
    identity = call.get("id")
    return ToolCall(
        tool=str(function.get("name") or ""),
        arguments=arguments,
        tool_call_id=None if identity is None else str(identity),
    )


def _read(text: str) -> Any:
    """The JSON value in a text; the text itself if it has none that can be sent to hooks (NaN, 1e999, a lone surrogate)."""
    try:
        value = json.loads(text or "{}")
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return text
    return value


def tool_message(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    """The message that tells the model the result of a call. Media that were not delivered to the user are under `media`."""
    message = {
        "role": "tool",
        "tool_call_id": call.tool_call_id or "",
        "name": call.tool,
        "content": content_of(result),
    }
    return {**message, "media": list(result.media)} if result.media and not result.response_handled else message


def content_of(result: ToolResult) -> str:
    """A result's text for the model, followed by its artifact tags."""
    if not result.artifact_tags:
        return result.for_llm
    return f"{result.for_llm}\nFiles: {' '.join(result.artifact_tags)}".strip()


def text_of(response: Mapping[str, Any]) -> str:
    """The text of a response."""
    content = response.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
