"""A question of an MCP server to the client's model: hooks are asked at before_llm, and about the answer at after_llm.

They let it pass or refuse it. MCP says less than they can change, so a change refuses it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...model.payloads import LLMRequest, LLMResponse
from ...rpc.jsonrpc import REFUSED
from .held import Held, Shared, note_hard_abort
from .messages import ASKS, MODEL, SAMPLING, Message, RefusedLineError, error_line, same_names
from .tool_list import function_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...calls.model_call import DecidedRequest


class HeldSampling(Held):
    """A question of the server. `run` returns the line that answers it."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        super().__init__(shared, line, request)
        params = request.get("params", {})
        if why := _flaw(params):
            raise RefusedLineError(why, asks=self.id)
        context = {"mcp_server": shared.server, "mcp_method": ASKS["sampling"]}
        self._shown = LLMRequest(meta=self._meta(), context=context, **_shown(params))

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        try:
            self._session.require_open()
            decided = await self._session.host.decide_llm(self._shown)
            if decided.response is not None or decided.outcomes[-1].payload != self._shown:
                raise PicohookError("it would pass only as the server asked it")
            line, response = await self._forward(self._line, send)
            if "error" in response:
                decided.close()
            else:
                await self._conclude(decided, response["result"])
        except PicohookError as error:
            note_hard_abort(self._session, error)
            return error_line(self.id, f"a hook refused the question to the model: {error}", REFUSED)
        return line

    async def _conclude(self, decided: DecidedRequest, result: Any) -> None:
        """Ask hooks about the client's answer. Raises `PicohookError` if they refuse it, and `RefusedLineError`."""
        if type(result) is not dict or not _is_content(result.get("content")):
            raise RefusedLineError("it is not an object with content")
        if why := same_names(result, MODEL):
            raise RefusedLineError(why)
        shown = {**result, "content": _plain(result["content"])}
        left = await decided.conclude(LLMResponse(response=shown, model=str(result.get("model", ""))))
        if left is None or left.response != shown or left.model != str(result.get("model", "")):
            raise PicohookError("its answer would pass only as the client gave it")


def _flaw(params: dict[str, Any]) -> str:
    """The reason why a question is refused; empty if it is not."""
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


def _is_content(content: Any) -> bool:
    """Whether it is one block of content, or a list of them."""
    return type(content) is dict or (type(content) is list and all(type(block) is dict for block in content))


def _plain(content: Any) -> Any:
    """Content as hooks see it: a text as a string, all other content as it is."""
    if type(content) is dict and content.keys() == {"type", "text"} and content["type"] == "text":
        return content["text"]
    return content


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    """The members of a payload of before_llm."""
    return {
        "messages": [{**one, "content": _plain(one["content"])} for one in params["messages"]],
        "tools": [function_of(tool["name"], tool) for tool in params.get("tools") or []],
        "system_prompt": params.get("systemPrompt"),
    }
