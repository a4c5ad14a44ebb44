"""One tool call on its way through hooks: it is held until they have decided, and so is its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ...model.payloads import Meta, ToolCall, ToolResult
from ...protocol.codec import encode
from ...turns.abort import AbortTurnError, HardAbortError, PausedError
from ...turns.tool_call import decide, ended, not_run
from .messages import CALL, VERSION, Message, RefusedLineError, line_of, meta_of, result_line, same_names
from .results import edited, made, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...turns.base_session import BaseSession
    from ...turns.tool_call import DecidedCall
    from .approval import ClientApprover, Round
    from .tool_list import ToolList


@dataclass(frozen=True, slots=True)
class CallContext:
    """What all calls of one client share."""

    session: BaseSession
    server: str
    """The server's name to hooks."""
    tools: ToolList
    approver: ClientApprover | None


class HeldCall:
    """A tool call of the client. `run` returns the line that answers it."""

    def __init__(self, shared: CallContext, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        session, server = shared.session, shared.server
        self.id = request["id"]
        params = request.get("params", {})
        arguments = params.get("arguments")
        why = same_names(params, CALL)
        if type(params.get("name")) is not str:
            why = "a tool call has no name"
        elif type(arguments) is not dict and arguments is not None:
            why = "the arguments of a tool call are not an object"
        elif "task" in params:
            why = "the result of a task does not pass the hooks: call the tool without `task`"
        if why:
            raise RefusedLineError(why, asks=self.id)
        self.scope = anyio.CancelScope()
        self.sent = False
        """Whether the server was asked."""
        self.held = 0
        """The bytes of it that wait for hooks."""
        self._session = session
        self._prefix = f"mcp__{server}__"
        self._line = line
        self._request = request
        self._approver = shared.approver
        self._hidden = shared.tools.why_hidden(params["name"])
        self._answered = anyio.Event()
        self._answer: tuple[bytes, dict[str, Any]] | None = None
        about = meta_of(params)
        self._newer = VERSION in about
        trace = about.get("traceparent")
        self.call = ToolCall(
            meta=Meta(
                agent_id=session.agent_id,
                session_key=session.id,
                source="mcp",
                traceparent=trace if type(trace) is str else "",
            ),
            context={"tool_name": params["name"], "mcp_server": server},
            tool=shared.tools.name_for_hooks(params["name"]),
            arguments=arguments or {},
            tool_call_id=self.id if type(self.id) is str else encode(self.id).decode(),
        )

    @property
    def answered(self) -> bool:
        """Whether the server has answered."""
        return self._answer is not None

    def take(self, line: bytes, response: dict[str, Any]) -> None:
        """Take the server's answer. Raises `RefusedLineError` if the server was not asked, or has answered."""
        if not self.sent or self.answered:
            raise RefusedLineError("it answers a tool call that waits for hooks")
        self._answer = line, response
        self._answered.set()

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the call to the server, and ask them about its result. Returns the line of the answer."""
        try:
            self._session.require_open()
            asking = self._begin()
            result = await self._run(send)
            if asking is not None and asking.result is not None and not self.sent:
                return result_line(self.id, asking.result)
        except AbortTurnError as error:
            host = self._session.host
            if isinstance(error, HardAbortError) and host.ended_by is None:
                host.ended_by = error.outcome  # the proxy cannot end the agent, but it calls no more tools for it
            result = _failed(f"A hook ended the turn: {error.outcome.reason_for_llm}")
        except PausedError as error:
            result = _failed(f"A hook paused the call, and MCP cannot resume it: {error.outcome.reason_for_llm}")
        return result if isinstance(result, bytes) else result_line(self.id, made(result, newer=self._newer))

    def _begin(self) -> Round | None:
        """Begin the round in which the user may be asked. The server does not get what is for picohook."""
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
        decided = await decide(host, self.call)
        if decided.result is not None:
            return decided.result
        own = decided.call
        if not own.tool.startswith(self._prefix):
            return self._unasked(
                decided, f"no hook answered the call of {own.tool}, which is not a tool of this server"
            )
        line = self._edited_line(own)
        await anyio.lowlevel.checkpoint_if_cancelled()  # nothing between here and `send` waits
        self.sent = True
        self._line = b""
        send(line)
        await self._answered.wait()
        assert self._answer is not None
        line, response = self._answer
        try:
            result = shown(response)
            kind = self._kind(response)
        except ValueError as error:
            return self._unasked(decided, f"picohook refused the server's result: {error}")
        if kind == "input_required":  # the client repeats the call with what the server wants to know
            self._unasked(decided, result)
            return line
        if kind != "complete":
            return self._unasked(decided, f"picohook refused the server's result: it is of the unknown kind {kind!r}")
        after = await decided.conclude(result)
        return line if after == result else result_line(self.id, edited(response, result, after, newer=self._newer))

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
        """The line for the server: the client's own, unless hooks edited the call."""
        if own.tool == self.call.tool and encode(own.arguments) == encode(self.call.arguments):
            return self._line
        params = {**self._request["params"], "name": own.tool.removeprefix(self._prefix), "arguments": own.arguments}
        return line_of({**self._request, "params": params})


def _failed(text: str) -> ToolResult:
    return ToolResult(for_llm=text, is_error=True)
