"""Claude Code's permission updates, "always allow", as grants for later calls, as far as a grant can say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import HookReplyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..tools import ShownCall

_SCOPES = {"session": "session", "localSettings": "project", "projectSettings": "project"}
_PATHS = ("file_path", "notebook_path")
ANYTHING = "anything"


def suggested(call: ShownCall) -> list[dict[str, Any]]:
    """The updates that a handler is offered: exactly this command or file, for the session."""
    exact = next((call.input[name] for name in ("command", *_PATHS) if isinstance(call.input.get(name), str)), None)
    if exact is None or any(letter in exact for letter in "*()"):
        return []
    rule = {"toolName": call.tool, "ruleContent": exact}
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def grant_of(updates: Any, call: ShownCall) -> dict[str, Any]:
    """Returns the grant that says the same as these updates. Raises `HookReplyError` if none does."""
    try:
        return _grant_of(updates, call)
    except ValueError as error:
        raise HookReplyError(f"`decision.updatedPermissions` counts for nothing: {error}") from None


def _grant_of(updates: Any, call: ShownCall) -> dict[str, Any]:
    if not (isinstance(updates, list) and len(updates) == 1 and isinstance(updates[0], dict)):
        raise ValueError("a grant is one update")
    (update,) = updates
    if (update.get("type"), update.get("behavior")) != ("addRules", "allow"):
        raise ValueError("a grant can only add rules that allow")
    scope = _SCOPES.get(str(update.get("destination")))
    if scope is None:
        raise ValueError(f"a grant cannot hold in {update.get('destination')}")
    rules = update.get("rules")
    if not (isinstance(rules, list) and len(rules) == 1 and isinstance(rules[0], dict)):
        raise ValueError("a grant has one rule")
    if rules[0].get("toolName") != call.tool:
        raise ValueError("a grant is for the tool of the call")
    like = _like(rules[0].get("ruleContent"), call.input)
    return {"for": scope, "like": {call.fields.get(name, name): shape for name, shape in like.items()}}


def _like(content: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the arguments for which a rule's text holds."""
    anything = dict.fromkeys(arguments, ANYTHING)
    if content is None:
        return anything
    if not isinstance(content, str):
        raise ValueError("a rule's text is a string")
    command, path = arguments.get("command"), next((name for name in _PATHS if name in arguments), None)
    if isinstance(command, str):
        if content.endswith(":*") and "*" not in content[:-2]:
            return anything | {"command": {"starts": content[:-2].split()}}
        if content == command:
            return {name: shape for name, shape in anything.items() if name != "command"}
    elif path is not None:
        if content.endswith("/**") and "*" not in content[:-3] and not content.startswith("/"):
            return anything | {path: {"under": content[:-3]}}
        if content == arguments[path]:
            return {name: shape for name, shape in anything.items() if name != path}
    raise ValueError(f"a grant cannot say {content!r}")
