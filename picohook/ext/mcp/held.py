"""Requests, and later their answers, that are held while hooks decide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from ...calls.abort import HardAbortError
from ...model.payloads import Meta
from .messages import Message, RefusedLineError, meta_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...sessions.base_session import BaseSession
    from ...transport.reactor import Promise, Reactor
    from .approval import ClientApprover
    from .tool_list import ToolList


@dataclass(frozen=True)
class Shared:
    """The state that all held requests of one connection share."""

    reactor: Reactor
    session: BaseSession
    server: str
    """The server's name to hooks."""
    tools: ToolList
    approver: ClientApprover | None

    @cached_property
    def meta(self) -> Meta:
        """The meta of payloads. Its JSON is made once for all of them."""
        return Meta(agent_id=self.session.agent_id, session_key=self.session.id, source="mcp")


def note_hard_abort(session: BaseSession, error: Exception) -> None:
    """Note a hard abort. The proxy cannot end the agent, but it forwards no further requests that hooks decide on."""
    if isinstance(error, HardAbortError) and session.host.ended_by is None:
        session.host.ended_by = error.outcome


def left(_: object) -> None:
    """Does nothing when a waiting promise is cancelled."""


class Held:
    """A held request. `run` returns the line that answers it."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        self.id = request["id"]
        self.scope: anyio.CancelScope | None = None
        """The block in which it runs; None before that."""
        self.cancelled = False
        self.sent = False
        """Whether the request was forwarded."""
        self.held = 0
        """The bytes of it that wait for hooks."""
        self.answered = False
        """Whether the other side has answered."""
        self._shared = shared
        self._session = shared.session
        self._line = line
        self._request = request
        self._answer: Promise

    def take(self, line: bytes, response: Message) -> tuple[Promise, tuple[bytes, Message]]:
        """Take the other side's answer. Returns what `Reactor.settle` takes to continue it.

        Raises `RefusedLineError` if the other side was not asked, or has answered.
        """
        if not self.sent or self.answered:
            raise RefusedLineError("it answers a request that waits for hooks")
        self.answered = True
        return self._answer, (line, response)

    def cancel(self) -> None:
        """Cancel the request. The line that `run` returns is not sent."""
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the request on, and ask them about its answer. Raises `RefusedLineError`."""
        raise NotImplementedError

    async def _forward(self, line: bytes, send: Callable[[bytes], None]) -> tuple[bytes, Message]:
        """Forward the request. Returns the line of its answer, and the message in it."""
        if self.cancelled:
            await anyio.lowlevel.checkpoint_if_cancelled()  # raises; nothing between here and `send` waits
        self.sent = True
        self._line = b""
        self._answer = answer = self._shared.reactor.promise(left)
        send(line)
        answered: tuple[bytes, Message] = await answer
        return answered

    def _meta(self) -> Meta:
        """The meta of this request's payloads."""
        meta = self._shared.meta
        trace = meta_of(self._request["params"]).get("traceparent")
        return meta.model_copy(update={"traceparent": trace}) if trace and type(trace) is str else meta
