"""One tool call and its result. Both are held until hooks have decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...calls.abort import AbortTurnError, PausedError
from ...calls.tool_call import DecidedCall, ended, not_run
from ...model.payloads import ToolCall, ToolResult
from ...protocol.codec import encode
from ...wire import words
from .held import Held, note_hard_abort
from .messages import (
    CALL,
    LONGEST_METHOD,
    VERSION,
    Message,
    RefusedLineError,
    line_of,
    meta_of,
    result_line,
    same_names,
)
from .results import edited, made, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...calls.decided import R
    from .approval import Round
    from .held import Shared


class _Decided(DecidedCall):
    """A decided call whose trails go nowhere: an MCP client has no place for them."""

    def traced(self, result: R) -> R:
        return result


class HeldCall(Held):
    """A tool call of the client. `run` returns the line that answers it."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        super().__init__(shared, line, request)
        params = request.get("params", {})
        arguments = params.get("arguments")
        why = same_names(params, CALL)
        if type(params.get("name")) is not str:
            why = "a tool call has no name"
        elif len(params["name"]) > LONGEST_METHOD:
            why = f"the name of the tool has more than {LONGEST_METHOD} characters"
        elif type(arguments) is not dict and arguments is not None:
            why = "the arguments of a tool call are not an object"
        elif "task" in params:
            why = "the result of a task does not pass the hooks: call the tool without `task`"
        if why:
            raise RefusedLineError(why, asks=self.id)
        self._prefix = f"mcp__{shared.server}__"
        self._approver = shared.approver
        self._hidden = shared.tools.hidden.get(params["name"])
        self._newer = VERSION in meta_of(params)
        self.call = ToolCall(
            meta=self._meta(),
            context=shared.tools.context_of(params["name"]),
            tool=shared.tools.name_for_hooks(params["name"]),
            arguments=arguments or {},
            tool_call_id=self.id if type(self.id) is str else encode(self.id).decode(),
        )

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the call to the server, and ask them about its result. Returns the line of the answer."""
        try:
            self._session.require_open()
            asking = self._begin()
            result = await self._run(send)
            if asking is not None and asking.result is not None and not self.sent:
                return result_line(self.id, asking.result)
        except AbortTurnError as error:
            note_hard_abort(self._session, error)
            result = _failed(f"A hook ended the turn: {error.outcome.reason_for_llm}")
        except PausedError as error:
            result = _failed(f"A hook paused the call, and MCP cannot resume it: {error.outcome.reason_for_llm}")
        return result if isinstance(result, bytes) else result_line(self.id, made(result, newer=self._newer))

    def _begin(self) -> Round | None:
        """Begin the round in which the user may be asked. Removes picohook's own members from the call."""
        if self._approver is None:
            return None
        asking, params = self._approver.begin(self._request["params"])
        if params is not self._request["params"]:
            self._request = {**self._request, "params": params}
            self._line = line_of(self._request)
        return asking

    async def _run(self, send: Callable[[bytes], None]) -> bytes | ToolResult:
        host = self._session.host
        if self._hidden:
            text = f"Tool execution denied: {self._hidden}"
            return not_run(host, self.call, text, text)
        decided = _Decided(host, self.call, host.note_hard_abort)
        await decided.ask()
        if decided.result is not None:
            return decided.result
        unchanged = decided.outcomes[0].payload is self.call
        own = self.call if unchanged else decided.call
        if not own.tool.startswith(self._prefix):
            return self._unasked(
                decided, f"no hook answered the call of {own.tool}, which is not a tool of this server"
            )
        try:
            line, response = await self._forward(self._line if unchanged else self._edited_line(own), send)
            result, kind = shown(response), self._kind(response)
            if kind == "input_required":  # the client repeats the call with what the server wants to know
                self._unasked(decided, result)
                return line
            if kind != "complete":
                raise ValueError(f"it is of the unknown kind {kind!r}")
        except ValueError as error:
            what = "the server's result" if self.sent else "the call"
            return self._unasked(decided, f"picohook refused {what}: {error}")
        after = await decided.conclude(result)
        unchanged = decided.outcomes[-1].action == words.CONTINUE or after == result
        return line if unchanged else result_line(self.id, edited(response, result, after, newer=self._newer))

    def _unasked(self, decided: DecidedCall, result: str | ToolResult) -> ToolResult:
        """Emit the event of a call whose result hooks are not asked about. Returns the result."""
        returned = decided.returned(_failed(result) if isinstance(result, str) else result)
        ended(self._session.host, returned, returned.result, returned.duration)
        return returned.result

    def _kind(self, response: dict[str, Any]) -> Any:
        """The kind of a result. Only a client of the newer protocol knows any other than the complete one."""
        if not self._newer or "error" in response:
            return "complete"
        return response["result"].get("resultType", "complete")

    def _edited_line(self, own: ToolCall) -> bytes:
        """The line for the server: the client's own, if hooks did not change the call."""
        if own.tool == self.call.tool and encode(own.arguments) == encode(self.call.arguments):
            return self._line
        params = {**self._request["params"], "name": own.tool.removeprefix(self._prefix), "arguments": own.arguments}
        return line_of({**self._request, "params": params})


def _failed(text: str) -> ToolResult:
    return ToolResult(for_llm=text, is_error=True)
