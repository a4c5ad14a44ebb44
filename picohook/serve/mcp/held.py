"""A request that is held while hooks decide, and so is its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ...model.payloads import Meta
from ...turns.abort import HardAbortError
from .messages import Message, RefusedLineError, meta_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...turns.abort import AbortTurnError
    from ...turns.base_session import BaseSession
    from .approval import ClientApprover
    from .tool_list import ToolList


@dataclass(frozen=True, slots=True)
class Shared:
    """What all held requests of one connection share."""

    session: BaseSession
    server: str
    """The server's name to hooks."""
    tools: ToolList
    approver: ClientApprover | None
    ask_client: Callable[[str, dict[str, Any]], Awaitable[Any]]
    """Sends a request of picohook's own to the client. Returns its result, or None if there is none."""


class Held:
    """A held request. `run` returns the line that answers it."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        self.id = request["id"]
        self.scope = anyio.CancelScope()
        self.sent = False
        """Whether it was forwarded."""
        self.held = 0
        """The bytes of it that wait for hooks."""
        self._session = shared.session
        self._line = line
        self._request = request
        self._answered = anyio.Event()
        self._answer: tuple[bytes, Message] | None = None

    @property
    def answered(self) -> bool:
        """Whether the other side has answered."""
        return self._answer is not None

    def take(self, line: bytes, response: Message) -> None:
        """Take the other side's answer. Raises `RefusedLineError` if it was not asked, or has answered."""
        if not self.sent or self.answered:
            raise RefusedLineError("it answers a request that waits for hooks")
        self._answer = line, response
        self._answered.set()

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the request on, and ask them about its answer. Raises `RefusedLineError`."""
        raise NotImplementedError

    async def _forward(self, line: bytes, send: Callable[[bytes], None]) -> tuple[bytes, Message]:
        """Forward the request. Returns the line of its answer, and what it says."""
        await anyio.lowlevel.checkpoint_if_cancelled()  # nothing between here and `send` waits
        self.sent = True
        self._line = b""
        send(line)
        await self._answered.wait()
        assert self._answer is not None
        return self._answer

    def _meta(self) -> Meta:
        """The meta of this request's payloads."""
        trace = meta_of(self._request["params"]).get("traceparent")
        return Meta(
            agent_id=self._session.agent_id,
            session_key=self._session.id,
            source="mcp",
            traceparent=trace if type(trace) is str else "",
        )

    def _note(self, error: AbortTurnError) -> None:
        """Note a hard abort: the proxy cannot end the agent, but it forwards no more of what hooks decide on."""
        host = self._session.host
        if isinstance(error, HardAbortError) and host.ended_by is None:
            host.ended_by = error.outcome
