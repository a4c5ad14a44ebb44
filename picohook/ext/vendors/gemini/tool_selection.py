"""Joins what Gemini CLI's handlers say about the tools that a model may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import HookReplyError
from .encode import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....model.payloads import LLMRequest

_MODES = ("AUTO", "ANY", "NONE")


def selected_tools(
    configs: Sequence[Mapping[str, Any]], request: LLMRequest, shown: Mapping[str, str]
) -> dict[str, Any]:
    """The changes of the request.

    If a handler says NONE, no tool is left. Otherwise all tools that a handler names are left, or every tool if no handler
    names one. ANY makes the model call a tool. `shown` has the handlers' name for each tool. Raises `HookReplyError` if a
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
    left = [tool for tool in request.tools if not names or not names.isdisjoint({name_of(tool), shown[name_of(tool)]})]
    changes: dict[str, Any] = {"tools": left} if left != request.tools else {}
    if "ANY" in modes and left:
        changes["options"] = {**request.options, "tool_choice": "required"}
    return changes
