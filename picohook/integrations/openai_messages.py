"""Converts requests and answers of the OpenAI Agents SDK to the form that hooks see, and applies the changes of hooks."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from .. import LLMRequest, text_of
from . import extra
from .agent_run import Message, added_functions, function_call, function_tool, rebuilt

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

    from agents import ModelSettings, Tool, TResponseInputItem
    from agents.items import TResponseOutputItem, TResponseStreamEvent


class ModelInput:
    """The part of a request that hooks can change."""

    def __init__(
        self,
        instructions: str | None,
        items: str | list[TResponseInputItem],
        settings: ModelSettings,
        tools: list[Tool],
        handoffs: list[Handoff[Any, Any]],
    ) -> None:
        self._instructions = instructions
        self._given = items
        self._settings = settings
        self._tools = tools
        self._handoffs = handoffs

    def given(self, output_schema: Any, tracing: Any) -> tuple[Any, ...]:
        """Returns the arguments of the SDK's models."""
        return self._instructions, self._given, self._settings, self._tools, output_schema, self._handoffs, tracing

    def shown(self, model: str) -> LLMRequest:
        """Returns the request as hooks see it."""
        options = {key: value for key, value in self._settings.to_json_dict().items() if value is not None}
        return LLMRequest(
            model=model,
            messages=[message for message, _ in self._messages],
            tools=[*map(_tool, self._tools), *map(_tool, self._handoffs)],
            options=options,
            system_prompt=self._instructions,
        )

    def edited(self, shown: LLMRequest, edited: LLMRequest, add: Callable[[Message], FunctionTool]) -> ModelInput:
        """Returns the request with the changes of hooks. Anything unchanged is the SDK's own object.

        `add` makes the tools that hooks added. Raises `PicohookError` for an added tool that is not a function.
        """
        own, settings, tools, handoffs = self._given, self._settings, self._tools, self._handoffs
        if edited.messages != shown.messages:
            groups = rebuilt(shown.messages, [items for _, items in self._messages], edited.messages, _made)
            own = [item for group in groups for item in group]
        if edited.options != shown.options:
            names = {field.name for field in fields(settings)}
            changed = {key: edited.options.get(key) for key in (edited.options.keys() | shown.options.keys()) & names}
            settings = replace(
                settings, **{key: value for key, value in changed.items() if shown.options.get(key) != value}
            )
        if edited.tools != shown.tools:
            left = [(tool.get("function") or tool) for tool in edited.tools]
            new = [add(tool) for tool in added_functions(shown.tools, edited.tools)]
            names = {tool.name for tool in new}
            tools = [*_left([tool for tool in tools if tool.name not in names], left), *new]
            handoffs = _left(handoffs, left)
            # In this list, the SDK looks up the tools that the model calls.
            self._tools[:] = [*(tool for tool in self._tools if tool.name not in names), *new]
        return ModelInput(edited.system_prompt, own, settings, tools, handoffs)

    @property
    def _messages(self) -> list[tuple[Message, list[TResponseInputItem]]]:
        """The messages, each with its items. The calls of one response are one message."""
        messages: list[tuple[Message, list[TResponseInputItem]]] = []
        for item in ItemHelpers.input_to_new_input_list(self._given):
            shown = cast(Message, item)
            message = _message(shown)
            if messages and shown.get("type") == "function_call" and _takes_calls(messages[-1][0]):
                last, items = messages[-1]
                messages[-1] = (
                    {**last, "tool_calls": [*last.get("tool_calls", []), *message["tool_calls"]]},
                    [*items, item],
                )
            else:
                messages.append((message, [item]))
        return messages


def _takes_calls(message: Message) -> bool:
    return message["role"] == "assistant" and "type" not in message


def _tool(tool: Tool | Handoff[Any, Any]) -> Message:
    if isinstance(tool, Handoff):
        return function_tool(tool.tool_name, tool.tool_description, tool.input_json_schema)
    if isinstance(tool, FunctionTool):
        return function_tool(tool.name, tool.description, tool.params_json_schema)
    return {"type": type(tool).__name__, "name": tool.name}


def _left(tools: Sequence[Any], left: Sequence[Message]) -> list[Any]:
    """Returns the tools or handoffs that hooks kept, with the descriptions of hooks."""
    described = {tool.get("name"): tool for tool in left}
    kept = []
    for tool in tools:
        shown = _tool(tool)
        shown = shown.get("function") or shown
        told = described.get(shown["name"])
        if told is not None and told != shown and isinstance(tool, FunctionTool):
            tool = copy.copy(tool)  # noqa: PLW2901
            tool.description = told.get("description") or ""
            tool.params_json_schema = told.get("parameters") or tool.params_json_schema
        kept += [] if told is None else [tool]
    return kept


# Messages.


def _message(item: Message) -> Message:
    match item.get("type", "message"):
        case "message":
            return {"role": item["role"], "content": _content(item["content"])}
        case "function_call":
            call = function_call(item["name"], item["arguments"], item["call_id"])
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        case "function_call_output":
            return {"role": "tool", "tool_call_id": item["call_id"], "content": _content(item["output"])}
    return {"role": "assistant", **item}


def _content(content: Any) -> Any:
    """Returns text parts as one text, and other content unchanged."""
    if isinstance(content, list) and all(part.get("type") in {"input_text", "output_text", "text"} for part in content):
        return "".join(part["text"] for part in content)
    return content


def _made(message: Message) -> list[TResponseInputItem]:
    """Returns the items of a message that a hook wrote."""
    items: list[Message] = []
    if message.get("role") == "tool":
        items.append(
            {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": message["content"]}
        )
    elif message.get("content"):
        items.append({"role": message.get("role", "user"), "content": message["content"]})
    items += [_made_call(call).model_dump(exclude_none=True) for call in message.get("tool_calls") or ()]
    return cast("list[TResponseInputItem]", items)


def shown_output(output: Sequence[TResponseOutputItem]) -> Message:
    """Returns the output of the model as hooks see it."""
    texts = [ItemHelpers.extract_text(item) or "" for item in output if isinstance(item, ResponseOutputMessage)]
    message: Message = {"content": "".join(texts)}
    if calls := [item for item in output if isinstance(item, ResponseFunctionToolCall)]:
        message["tool_calls"] = [function_call(call.name, call.arguments, call.call_id) for call in calls]
    return message


def answered(output: Sequence[TResponseOutputItem], answer: Mapping[str, Any]) -> list[TResponseOutputItem]:
    """Returns the output with the changes of hooks. Anything unchanged is the SDK's own object."""
    shown = shown_output(output)
    items = list(output)
    text = text_of(answer)
    if text != shown["content"]:
        items = [item for item in items if not isinstance(item, ResponseOutputMessage)]
        items += [_text_item(text)] if text else []
    calls = answer.get("tool_calls") or []
    if calls != shown.get("tool_calls", []):
        own = [item for item in items if isinstance(item, ResponseFunctionToolCall)]
        others = [item for item in items if not isinstance(item, ResponseFunctionToolCall)]
        items = [*others, *rebuilt(shown.get("tool_calls", []), own, calls, _made_call)]
    return items


def _text_item(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id=f"msg_{uuid4().hex}", type="message", role="assistant", status="completed", content=[content]
    )


def _made_call(call: Message) -> ResponseFunctionToolCall:
    function = call.get("function") or call
    arguments = function.get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    identity = call.get("id") or f"call_{uuid4().hex}"
    return ResponseFunctionToolCall(
        name=function.get("name", ""), arguments=text, call_id=identity, type="function_call"
    )


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
