"""Converts requests and answers of the OpenAI Agents SDK to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from .. import LLMRequest, calls_of
from . import chat, extra

with extra("openai-agents"):
    from agents import FunctionTool, Handoff, ItemHelpers
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputItemDoneEvent,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseTextDeltaEvent,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agents import Tool, TResponseInputItem
    from agents.items import TResponseOutputItem, TResponseStreamEvent


class ModelInput:
    """A request to a model: the arguments of the SDK's models, by name."""

    def __init__(self, arguments: Mapping[str, Any], add: Callable[[chat.Message], FunctionTool]) -> None:
        """`add` makes a tool that hooks added."""
        self._arguments = arguments
        self._add = add
        self._offered = [*arguments["tools"]]
        """The tools of the agent, without those that hooks added."""

    def shown(self, model: str) -> LLMRequest:
        """Returns the request as hooks see it."""
        options = {
            key: value for key, value in self._arguments["model_settings"].to_json_dict().items() if value is not None
        }
        return LLMRequest(
            model=model,
            messages=[message for message, _ in self._messages],
            tools=[_tool(tool) for tool in (*self._offered, *self._arguments["handoffs"])],
            options=options,
            system_prompt=self._arguments["system_instructions"],
        )

    def edited(self, shown: LLMRequest, edited: LLMRequest) -> dict[str, Any]:
        """Returns the arguments with the changes of hooks. Anything unchanged is the SDK's own object.

        Raises `PicohookError` for an added tool that is not a function.
        """
        arguments = {**self._arguments, "system_instructions": edited.system_prompt}
        if edited.messages != shown.messages:
            groups = chat.rebuilt(shown.messages, [items for _, items in self._messages], edited.messages, _made)
            arguments["input"] = [item for group in groups for item in group]
        if edited.options != shown.options:
            settings = arguments["model_settings"]
            names = {field.name for field in fields(settings)}
            changed = {name: value for name, value in chat.changed_options(shown, edited).items() if name in names}
            arguments["model_settings"] = replace(settings, **changed)
        if edited.tools != shown.tools:
            own = [*self._offered, *arguments["handoffs"]]
            left = chat.edited_tools(shown, edited, own, self._add, _redescribed)
            tools = arguments["tools"] = [tool for tool in left if not isinstance(tool, Handoff)]
            arguments["handoffs"] = [tool for tool in left if isinstance(tool, Handoff)]
            # In this list, the SDK looks up the tools that the model calls.
            names = {tool.name for tool in self._offered}
            self._arguments["tools"][:] = [*self._offered, *(tool for tool in tools if tool.name not in names)]
        return arguments

    @property
    def _messages(self) -> list[tuple[chat.Message, list[TResponseInputItem]]]:
        """The messages, each with its items. The calls of one response are one message."""
        messages: list[tuple[chat.Message, list[TResponseInputItem]]] = []
        for item in ItemHelpers.input_to_new_input_list(self._arguments["input"]):
            shown = cast(chat.Message, item)
            message = _message(shown)
            last, items = messages[-1] if messages else ({}, [])
            if shown.get("type") == "function_call" and last.get("role") == "assistant" and "type" not in last:
                messages[-1] = (
                    {**last, "tool_calls": [*last.get("tool_calls", []), *message["tool_calls"]]},
                    [*items, item],
                )
            else:
                messages.append((message, [item]))
        return messages


def _tool(tool: Tool | Handoff[Any, Any]) -> chat.Message:
    if isinstance(tool, Handoff):
        return chat.function_tool(tool.tool_name, tool.tool_description, tool.input_json_schema)
    if isinstance(tool, FunctionTool):
        return chat.function_tool(tool.name, tool.description, tool.params_json_schema)
    return {"type": type(tool).__name__, "name": tool.name}


def _redescribed(tool: Any, described: Mapping[str, Any]) -> Any:
    """Returns the tool with the description of hooks. A handoff, or a tool that is no function, keeps its own."""
    if not isinstance(tool, FunctionTool):
        return tool
    changed = copy.copy(tool)
    changed.description = described.get("description") or ""
    changed.params_json_schema = described.get("parameters") or tool.params_json_schema
    return changed


# Messages.


def _message(item: chat.Message) -> chat.Message:
    match item.get("type", "message"):
        case "message":
            return {"role": item["role"], "content": _content(item["content"])}
        case "function_call":
            call = chat.function_call(item["name"], item["arguments"], item["call_id"])
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        case "function_call_output":
            return {"role": "tool", "tool_call_id": item["call_id"], "content": _content(item["output"])}
    return {"role": "assistant", **item}


def _content(content: Any) -> Any:
    """Returns text parts as one text, and other content unchanged."""
    if isinstance(content, list) and all(part.get("type") in {"input_text", "output_text", "text"} for part in content):
        return "".join(part["text"] for part in content)
    return content


def _made(message: chat.Message) -> list[TResponseInputItem]:
    """Returns the items of a message that a hook wrote."""
    items: list[chat.Message] = []
    if message.get("role") == "tool":
        items.append(
            {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": message["content"]}
        )
    elif message.get("content"):
        items.append({"role": message.get("role", "user"), "content": message["content"]})
    items += [_made_call(call).model_dump(exclude_none=True) for call in message.get("tool_calls") or ()]
    return cast("list[TResponseInputItem]", items)


def shown_output(output: Sequence[TResponseOutputItem]) -> chat.Message:
    """Returns the output of the model as hooks see it."""
    texts = [ItemHelpers.extract_text(item) or "" for item in output if isinstance(item, ResponseOutputMessage)]
    calls = [item for item in output if isinstance(item, ResponseFunctionToolCall)]
    return chat.model_message(
        "".join(texts), [chat.function_call(call.name, call.arguments, call.call_id) for call in calls]
    )


def answered(output: Sequence[TResponseOutputItem], answer: Mapping[str, Any]) -> list[TResponseOutputItem]:
    """Returns the output with the changes of hooks. Anything unchanged is the SDK's own object."""
    return chat.edited_parts(
        output,
        shown_output(output),
        answer,
        {"content": (lambda item: isinstance(item, ResponseOutputMessage), _text_item)},
        (lambda item: isinstance(item, ResponseFunctionToolCall), _made_call),
    )


def _text_item(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id=f"msg_{uuid4().hex}", type="message", role="assistant", status="completed", content=[content]
    )


def _made_call(call: chat.Message) -> ResponseFunctionToolCall:
    (made,) = calls_of({"tool_calls": [call]})
    identity, arguments = made.tool_call_id or f"call_{uuid4().hex}", json.dumps(made.arguments)
    return ResponseFunctionToolCall(name=made.tool, arguments=arguments, call_id=identity, type="function_call")


def replayed(response: Response, output: list[TResponseOutputItem]) -> list[TResponseStreamEvent]:
    """Returns the stream events of an output that hooks changed."""
    events: list[TResponseStreamEvent] = []
    for place, item in enumerate(output):
        if isinstance(item, ResponseOutputMessage):
            events.append(
                ResponseTextDeltaEvent(
                    type="response.output_text.delta",
                    item_id=item.id,
                    output_index=place,
                    content_index=0,
                    delta=ItemHelpers.extract_text(item) or "",
                    logprobs=[],
                    sequence_number=len(events),
                )
            )
        events.append(
            ResponseOutputItemDoneEvent(
                type="response.output_item.done", item=item, output_index=place, sequence_number=len(events)
            )
        )
    whole = response.model_copy(update={"output": output})
    events.append(ResponseCompletedEvent(type="response.completed", response=whole, sequence_number=len(events)))
    return events


def nothing() -> Response:
    """Returns an empty response, for a model that was not asked."""
    return Response(
        id=f"resp_{uuid4().hex}",
        created_at=time.time(),
        model="",
        object="response",
        output=[],
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )
