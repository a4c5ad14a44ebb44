"""Converts messages, calls and tools to the form that hooks see, and back to the objects of a framework."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .. import LLMRequest, PicohookError, ToolCall, calls_of, text_of

T = TypeVar("T")

Message = dict[str, Any]

SHOWN_OF_TOOL = 200
"""The most characters of a tool that an error shows."""


def tool_call(name: str, arguments: Any, identity: str | None) -> ToolCall:
    """Returns a call as hooks see it. Arguments that are not a JSON object are shown as text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    (call,) = calls_of({"tool_calls": [{"id": identity, "function": {"name": name, "arguments": text}}]})
    return call


def function_call(name: str, arguments: str, identity: str) -> Message:
    """Returns a call as part of a message of the model."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def function_tool(name: str, description: str | None, parameters: Mapping[str, Any]) -> Message:
    """Returns a tool as it is offered to the model."""
    function = {"name": name, "description": description or "", "parameters": dict(parameters)}
    return {"type": "function", "function": function}


def model_message(content: Any, calls: Sequence[Message], thoughts: str = "") -> Message:
    """Returns the model's answer as a message."""
    more = {"reasoning_content": thoughts, "tool_calls": list(calls)}
    return {"content": content, **{key: value for key, value in more.items() if value}}


# The changes of hooks. Anything unchanged is the framework's own object.


def rebuilt(
    shown: Sequence[Message], own: Sequence[T], edited: Iterable[Message], make: Callable[[Message], T]
) -> list[T]:
    """Returns the edited messages as objects of the framework. `make` makes those of new and changed messages."""
    left = list(zip(shown, own, strict=True))
    objects: list[T] = []
    for message in edited:
        index = next((index for index, (seen, _) in enumerate(left) if seen == message), None)
        objects.append(make(message) if index is None else left.pop(index)[1])
    return objects


def edited_parts(
    parts: Sequence[T],
    shown: Message,
    answer: Mapping[str, Any],
    texts: Mapping[str, tuple[Callable[[T], bool], Callable[[str], T]]],
    calls: tuple[Callable[[T], bool], Callable[[Message], T]],
) -> list[T]:
    """Returns the parts of an answer that was `shown` to hooks, as they left it.

    `texts` has the keys of the message that are text. Each pair tells which parts are of a key, and makes such a part.
    """
    left = list(parts)
    for key, (is_text, make_text) in texts.items():
        text = text_of({"content": answer.get(key)})
        if text != text_of({"content": shown.get(key)}):
            left = _replaced(left, is_text, [make_text(text)] if text else [])
    is_call, make_call = calls
    made, edited = shown.get("tool_calls", []), answer.get("tool_calls") or []
    if edited != made:
        own = [part for part in left if is_call(part)]
        left = _replaced(left, is_call, rebuilt(made, own, edited, make_call))
    return left


def _replaced(parts: Sequence[T], is_old: Callable[[T], bool], new: Sequence[T]) -> list[T]:
    """Returns the parts with new ones where the first old one is; at the end if there is none."""
    place = next((place for place, part in enumerate(parts) if is_old(part)), len(parts))
    return [*parts[:place], *new, *(part for part in parts[place:] if not is_old(part))]


def changed_options(shown: LLMRequest, edited: LLMRequest) -> dict[str, Any]:
    """Returns the options that hooks changed. One that they removed is None."""
    names = edited.options.keys() | shown.options.keys()
    return {name: edited.options.get(name) for name in names if edited.options.get(name) != shown.options.get(name)}


def edited_settings(own: Mapping[str, Any], shown: LLMRequest, edited: LLMRequest) -> dict[str, Any]:
    """Returns the framework's own settings with the changes of hooks."""
    settings = {**own, **changed_options(shown, edited)}
    return {name: value for name, value in settings.items() if name in edited.options}


def edited_tools(
    shown: LLMRequest,
    edited: LLMRequest,
    own: Sequence[T],
    make: Callable[[Message], T],
    redescribe: Callable[[T, Message], T],
) -> list[T]:
    """Returns the tools as hooks left them. `make` makes one that they added, `redescribe` changes the framework's own.

    Raises `PicohookError` for an added tool that is not a function.
    """
    added = {function["name"]: make(function) for function in added_functions(shown, edited)}
    known = {_function(tool).get("name"): one for tool, one in zip(shown.tools, own, strict=True)}

    def changed(tool: Message) -> T:
        function = _function(tool)
        name = function.get("name")
        return added[name] if name in added else redescribe(known[name], function)

    return rebuilt(shown.tools, own, edited.tools, changed)


def added_functions(shown: LLMRequest, edited: LLMRequest) -> list[Message]:
    """Returns the functions that hooks added to the tools. Raises `PicohookError` for another kind of tool."""
    known = {_function(tool).get("name") for tool in shown.tools}
    new = []
    for tool in edited.tools:
        function = _function(tool)
        name = function.get("name")
        if tool in shown.tools or name in known:
            continue
        if not isinstance(name, str) or tool.get("type", "function") != "function":
            raise PicohookError(
                f"{str(tool)[:SHOWN_OF_TOOL]}: a hook added this tool, and only functions can be added here"
            )
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        new.append(_function(function_tool(name, function.get("description"), parameters)))
    return new


def _function(tool: Message) -> Message:
    function: Message = tool.get("function") or tool
    return function
