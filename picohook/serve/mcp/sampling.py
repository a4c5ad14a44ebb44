"""A request of an older server to the client's model: hooks decide on it at before_llm, and on the answer at after_llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...model.payloads import LLMRequest, LLMResponse
from ...turns.abort import AbortTurnError
from ...turns.model_call import decide_llm
from ..server.jsonrpc import REFUSED
from .held import Held
from .messages import MODEL, SAMPLING, RefusedLineError, error_line, line_of, result_line, same_names
from .tool_list import function_of, tool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...turns.model_call import DecidedRequest
    from .held import Shared
    from .messages import Message

OPTIONS = {"temperature": "temperature", "max_tokens": "maxTokens", "stop": "stopSequences"}
"""The options of a request that hooks see, by their names in MCP."""
ROLES = ("user", "assistant")


class HeldSampling(Held):
    """A question of the server to the client's model."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        super().__init__(shared, line, request)
        self._ask_client = shared.ask_client
        params = request.get("params", {})
        if why := _flaw(params):
            raise RefusedLineError(why, asks=self.id)
        self._params = params
        self._shown = LLMRequest(
            meta=self._meta(),
            context={"mcp_server": shared.server, "mcp_method": request["method"]},
            **_shown(params),
        )

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the question to the client, and ask them about the answer. Returns the line for the server.

        Raises `RefusedLineError` if the client's answer cannot be shown to hooks.
        """
        try:
            self._session.require_open()
            decided = await decide_llm(self._session.host, self._shown)
            line, result = b"", None
            if decided.response is None:
                line, response = await self._forward(self._edited_line(decided.request), send)
                if "error" in response:
                    decided.close()
                    return line
                result = response["result"]
            while decided.response is None:
                line, result = await self._conclude(decided, line, result)
        except PicohookError as error:
            if isinstance(error, AbortTurnError):
                self._note(error)
            return error_line(self.id, f"a hook refused the question to the model: {error}", REFUSED)
        except _NotOfMCPError as error:
            return error_line(self.id, f"hooks left what MCP cannot say: {error}", REFUSED)
        return line or result_line(self.id, _result(decided.response, result))

    async def _conclude(self, decided: DecidedRequest, line: bytes, result: Any) -> tuple[bytes, Any]:
        """Ask hooks about an answer, and the client again if they want that.

        Returns the line for the server, empty if hooks edited it, and the client's last result.
        """
        if why := _flaw_of_result(result):
            decided.close()
            raise RefusedLineError(why)
        shown = {**result, "content": _plain(result["content"])}
        given = LLMResponse(response=shown, model=str(result.get("model", "")))
        response = await decided.conclude(given)
        if response is None:
            asked = _edited(self._params, self._shown, decided.request)
            return b"", await self._ask_client(self._request["method"], asked)
        unchanged = (response.response, response.model) == (given.response, given.model)
        return line if unchanged else b"", result

    def _edited_line(self, request: LLMRequest) -> bytes:
        """The line for the client: the server's own, unless hooks edited the request."""
        params = _edited(self._params, self._shown, request)
        return self._line if params is self._params else line_of({**self._request, "params": params})


class _NotOfMCPError(Exception):
    """Hooks left something that has no form in MCP."""


def _flaw(params: dict[str, Any]) -> str:
    """Why a request is refused; empty if it is not."""
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
    """Content for MCP, of what hooks left."""
    if isinstance(shown, str):
        return {"type": "text", "text": shown}
    if not _is_content(shown):
        raise _NotOfMCPError("the content of a message is neither a text nor a list of blocks")
    return shown


def _message(shown: dict[str, Any]) -> dict[str, Any]:
    if shown.get("role") not in ROLES:
        raise _NotOfMCPError(f"a message of the role {shown.get('role')!r}")
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
    """The params as hooks left them; the same object if they changed nothing. Raises `_NotOfMCPError`.

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
