"""A server's question to the client's model: hooks decide on it at before_llm, and on the answer at after_llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...calls.abort import HardAbortError
from ...errors import PicohookError
from ...model.payloads import LLMRequest, LLMResponse
from .messages import ASKS, MODEL, SAMPLING, same_names
from .tool_list import function_of, tool_of

if TYPE_CHECKING:
    from ...calls.model_call import DecidedRequest
    from ...model.payloads import Meta
    from ...sessions.base_session import BaseSession

OPTIONS = {"temperature": "temperature", "max_tokens": "maxTokens", "stop": "stopSequences"}
"""The options of a request that hooks see, by their names in MCP."""
ROLES = ("user", "assistant")


def note_hard_abort(session: BaseSession, error: Exception) -> None:
    """Note a hard abort. The proxy cannot end the agent, but it forwards no further requests that hooks decide on."""
    if isinstance(error, HardAbortError) and session.host.ended_by is None:
        session.host.ended_by = error.outcome


class NotOfMCPError(PicohookError):
    """Hooks left something that has no form in MCP."""


class ModelQuestion:
    """A question to the client's model, on its way through hooks: to the client, and back with the answer."""

    def __init__(self, session: BaseSession, server: str, params: Any, meta: Meta) -> None:
        """Take the params of `sampling/createMessage`. Raises `ValueError` for what hooks cannot be shown."""
        if why := _flaw(params):
            raise ValueError(why)
        self.params: dict[str, Any] = params
        """The params for the client. This is the same object if hooks changed nothing."""
        self.result: dict[str, Any] | None = None
        """The result for the server: the client's own object if hooks changed nothing; None if the client has to be asked."""
        self._given = params
        self._session = session
        context = {"mcp_server": server, "mcp_method": ASKS["sampling"]}
        self._shown = LLMRequest(meta=meta, context=context, **_shown(params))
        self._decided: DecidedRequest

    async def ask(self) -> None:
        """Ask hooks about the question. Sets `params`, or `result` if one answers in place of the model.

        Raises `PicohookError` if hooks refuse it.
        """
        self._session.require_open()
        self._decided = await self._session.host.decide_llm(self._shown)
        self._set(None)

    async def conclude(self, result: Any) -> None:
        """Ask hooks about the client's answer. Sets `result`, or `params` if the model must be asked again.

        Raises `PicohookError` if hooks refuse it, and `ValueError` if they cannot be shown it.
        """
        if why := _flaw_of_result(result):
            self._decided.close()
            raise ValueError(why)
        shown = {**result, "content": _plain(result["content"])}
        response = LLMResponse(response=shown, model=str(result.get("model", "")))
        left = await self._decided.conclude(response)
        if left is not None and (left.response, left.model) == (response.response, response.model):
            self.result = result
        else:
            self._set(result)

    def _set(self, before: Any) -> None:
        if self._decided.response is None:
            self.params = _edited(self._given, self._shown, self._decided.request)
        else:
            self.result = _result(self._decided.response, before)

    def close(self) -> None:
        """Note that the model will not answer."""
        self._decided.close()


def _flaw(params: dict[str, Any]) -> str:
    """The reason why a request is refused; empty if it is not."""
    messages, tools = params.get("messages"), params.get("tools") or []
    if why := same_names(params, SAMPLING):
        return why
    if "task" in params:
        return "the result of a task does not pass the hooks: ask the model without `task`"
    if type(messages) is not list or not all(type(one) is dict and _is_content(one.get("content")) for one in messages):
        return "its messages are not a list of objects with content"
    if type(tools) is not list or not all(type(one) is dict and type(one.get("name")) is str for one in tools):
        return "its tools are not a list of objects with names"
    if not isinstance(params.get("systemPrompt"), str | None):
        return "its system prompt is not a string"
    return next(filter(None, (same_names(one, frozenset({"role", "content"})) for one in messages)), "")


def _flaw_of_result(result: Any) -> str:
    if type(result) is not dict or not _is_content(result.get("content")):
        return "it is not an object with content"
    return same_names(result, MODEL)


def _is_content(content: Any) -> bool:
    """Whether it is one block of content, or a list of them."""
    return type(content) is dict or (type(content) is list and all(type(block) is dict for block in content))


def _plain(content: Any) -> Any:
    """Content as hooks see it: a text as a string, all other content as it is."""
    if type(content) is dict and content.keys() == {"type", "text"} and content["type"] == "text":
        return content["text"]
    return content


def _content(shown: Any) -> Any:
    """Returns the content that hooks left, in MCP's form."""
    if isinstance(shown, str):
        return {"type": "text", "text": shown}
    if not _is_content(shown):
        raise NotOfMCPError(
            "hooks left what MCP cannot say: the content of a message is neither a text nor a list of blocks"
        )
    return shown


def _message(shown: dict[str, Any]) -> dict[str, Any]:
    if shown.get("role") not in ROLES:
        raise NotOfMCPError(f"hooks left what MCP cannot say: a message of the role {shown.get('role')!r}")
    return {**shown, "content": _content(shown.get("content"))}


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    """The members of a payload of before_llm."""
    preferences = params.get("modelPreferences")
    hints = preferences.get("hints") if type(preferences) is dict else None
    hint = hints[0].get("name") if type(hints) is list and hints and type(hints[0]) is dict else None
    return {
        "model": hint if type(hint) is str else "",
        "messages": [{**one, "content": _plain(one["content"])} for one in params["messages"]],
        "tools": [function_of(tool["name"], tool) for tool in params.get("tools") or []],
        "options": {name: params[own] for name, own in OPTIONS.items() if params.get(own) is not None},
        "system_prompt": params.get("systemPrompt"),
    }


def _edited(params: dict[str, Any], before: LLMRequest, after: LLMRequest) -> dict[str, Any]:
    """The params as hooks left them; the same object if they changed nothing. Raises `NotOfMCPError`.

    Tools that hooks add are left out: the server would get the calls of them, and does not know them.
    """
    new: dict[str, Any] = {}
    if after.messages != before.messages:
        new["messages"] = [_message(one) for one in after.messages]
    if after.tools != before.tools:
        own = {tool["name"]: tool for tool in params.get("tools") or []}
        left = [(one, one.get("function") or one) for one in after.tools]
        tools = [_tool(one, own[function["name"]]) for one, function in left if function.get("name") in own]
        if tools != list(own.values()):
            new["tools"] = tools
    if after.options != before.options:
        new |= {own: after.options.get(name) for name, own in OPTIONS.items()}
    if after.system_prompt != before.system_prompt:
        new["systemPrompt"] = after.system_prompt
    if after.model != before.model:
        preferences = params.get("modelPreferences")
        others = preferences if type(preferences) is dict else {}
        new["modelPreferences"] = {**others, "hints": [{"name": after.model}]}
    if not new:
        return params
    return {name: value for name, value in {**params, **new}.items() if value is not None}


def _tool(shown: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A tool of the server as hooks left it."""
    name = own["name"]
    return own if shown == function_of(name, own) else {**own, **tool_of(name, shown.get("function") or shown)}


def _result(response: LLMResponse, before: Any) -> dict[str, Any]:
    """The result for the server, as hooks left it or made it."""
    message = response.response
    own = before if type(before) is dict else {"role": "assistant", "stopReason": "endTurn"}
    members = {name: message[name] for name in MODEL - {"content", "model"} if name in message}
    content = message.get("content")
    return {
        **own,
        **members,
        "content": _content("" if content is None else content),
        "model": response.model or "picohook",
    }
