"""Requests to a model and its answers, in the form that Gemini CLI's handlers read and write, which has only texts.

What handlers say about the tools that a model may call is joined here, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....errors import HookReplyError
from ....model.conversation import text_of
from ....model.payloads import LLMRequest

_MODES = ("AUTO", "ANY", "NONE")
_ROLES = {"assistant": "model", "model": "model", "system": "system", "user": "user"}
_SETTINGS = {"temperature": "temperature", "maxOutputTokens": "max_tokens", "topP": "top_p", "topK": "top_k"}
"""The settings of a request, each with the name of its option in picohook."""


def shown_request(
    model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A request as handlers read it. Messages without a text and results of tools are left out."""
    known = options or {}
    config = {name: known[option] for name, option in _SETTINGS.items() if known.get(option) is not None}
    shown = [{"role": _ROLES[messages[at]["role"]], "content": text_of(messages[at])} for at in _shown(messages)]
    return {"model": model, "messages": shown, "config": config}


def _shown(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """The indexes of the messages that handlers read."""
    return [at for at, one in enumerate(messages) if one.get("role") in _ROLES and text_of(one)]


def changed_request(
    request: Mapping[str, Any], model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The changes that handlers make to a request.

    Their messages replace those that they have read, one by one. All other messages stay. Raises `HookReplyError` if a field of
    `request` has a wrong type.
    """
    changes: dict[str, Any] = {}
    named = request.get("model")
    if isinstance(named, str) and named and named != model:
        changes["model"] = named
    if request.get("messages") is not None:
        edited = _edited(request["messages"], messages)
        if edited != messages:
            changes["messages"] = edited
    config = request.get("config") or {}
    if not isinstance(config, dict):
        raise HookReplyError("`llm_request.config` is not an object")
    more = {option: config[name] for name, option in _SETTINGS.items() if config.get(name) is not None}
    if {**options, **more} != options:
        changes["options"] = {**options, **more}
    return changes


def _edited(new: Any, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not isinstance(new, list) or any(
        not isinstance(one, dict) or not isinstance(one.get("content"), str | list) for one in new
    ):
        raise HookReplyError("`llm_request.messages` is not a list of messages")
    made = [dict(one) for one in messages]
    indexes = _shown(messages)
    for at, one in zip(indexes, new, strict=False):
        if text_of(one) != text_of(made[at]):
            made[at]["content"] = _with_text(made[at].get("content"), text_of(one))
    roles = {"model": "assistant"}
    made += [
        {"role": roles.get(str(one.get("role")), str(one.get("role") or "user")), "content": text_of(one)}
        for one in new[len(indexes) :]
    ]
    return made


def _with_text(content: Any, text: str) -> Any:
    """A message's content with another text. The parts of a list that are not text stay."""
    if not isinstance(content, list):
        return text
    others = [part for part in content if not (isinstance(part, dict) and "text" in part)]
    return [{"type": "text", "text": text}, *others]


def shown_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """A model's answer as handlers read it."""
    text = text_of(response)
    content = {"role": "model", "parts": [text] if text else []}
    return {"text": text, "candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def text_of_response(response: Mapping[str, Any]) -> str | None:
    """The text of a model's answer that a handler gives; None if it has no text. Raises `HookReplyError` if it is malformed."""
    candidates = response.get("candidates")
    if not isinstance(candidates, list):
        raise HookReplyError("`llm_response.candidates` is not a list")
    content = candidates[0].get("content") if candidates and isinstance(candidates[0], dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts:
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < len(texts):
        raise HookReplyError("`llm_response` has a part that is not a text")
    return "".join(strings)


def name_of(tool: Mapping[str, Any]) -> str:
    """The name of a tool of a request."""
    function = tool.get("function")
    return str((function if isinstance(function, dict) else tool).get("name") or "")


def selected_tools(
    configs: Sequence[Mapping[str, Any]], request: LLMRequest, shown: Callable[[str], str]
) -> dict[str, Any]:
    """The changes of the request.

    If a handler says NONE, no tool is left. Otherwise all tools that a handler names are left, or every tool if no handler
    names one. ANY makes the model call a tool. `shown` returns the handlers' name of a tool. Raises `HookReplyError` if a
    config is malformed.
    """
    names: set[str] = set()
    for config in configs:
        if config.get("mode") not in {None, *_MODES}:
            raise HookReplyError(f"`toolConfig.mode` is not one of {', '.join(_MODES)}")
        allowed = config.get("allowedFunctionNames") or []
        if not isinstance(allowed, list) or not all(isinstance(name, str) for name in allowed):
            raise HookReplyError("`toolConfig.allowedFunctionNames` is not a list of names")
        names.update(allowed)
    modes = {config.get("mode") for config in configs}
    if "NONE" in modes:
        return {"tools": []} if request.tools else {}
    left = [tool for tool in request.tools if not names or not names.isdisjoint({name_of(tool), shown(name_of(tool))})]
    changes: dict[str, Any] = {"tools": left} if left != request.tools else {}
    if "ANY" in modes and left:
        changes["options"] = {**request.options, "tool_choice": "required"}
    return changes
