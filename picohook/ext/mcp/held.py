"""Requests, and later their answers, that are held while hooks decide: questions to a model, and answers to such questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from ...errors import PicohookError
from ...model.payloads import Meta
from ...rpc.jsonrpc import REFUSED
from .messages import Message, RefusedLineError, error_line, line_of, meta_of, result_line
from .model_question import ModelQuestion, note_hard_abort

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...sessions.base_session import BaseSession
    from ...transport.reactor import Promise, Reactor
    from .approval import ClientApprover
    from .input_rounds import InputRounds
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
    ask_client: Callable[[str, dict[str, Any]], Awaitable[Any]]
    """Sends a request of picohook's own to the client. Returns its result, or None without one."""
    rounds: InputRounds

    @cached_property
    def meta(self) -> Meta:
        """The meta of payloads. Its JSON is made once for all of them."""
        return Meta(agent_id=self.session.agent_id, session_key=self.session.id, source="mcp")


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


class HeldSampling(Held):
    """A question of an older server to the client's model."""

    def __init__(self, shared: Shared, line: bytes, request: Message) -> None:
        """Take the line of a request. Raises `RefusedLineError`."""
        super().__init__(shared, line, request)
        try:
            self._question = ModelQuestion(shared.session, shared.server, request.get("params", {}), self._meta())
        except ValueError as error:
            raise RefusedLineError(str(error), asks=self.id) from None

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks, `send` the question to the client, and ask them about the answer. Returns the line for the server.

        Raises `RefusedLineError` if the client's answer cannot be shown to hooks.
        """
        question, line, answer = self._question, b"", None
        try:
            await question.ask()
            if question.result is None:
                line, response = await self._forward(self._edited_line(), send)
                if "error" in response:
                    question.close()
                    return line
                answer = response["result"]
                await question.conclude(answer)
            while question.result is None:
                line = b""
                await question.conclude(await self._shared.ask_client(self._request["method"], question.params))
        except PicohookError as error:
            note_hard_abort(self._session, error)
            return error_line(self.id, f"a hook refused the question to the model: {error}", REFUSED)
        except ValueError as error:
            raise RefusedLineError(str(error)) from None
        return line if line and question.result is answer else result_line(self.id, question.result)

    def _edited_line(self) -> bytes:
        """The line for the client: the server's own, unless hooks edited the question."""
        params = self._question.params
        return self._line if params is self._request.get("params") else line_of({**self._request, "params": params})


class HeldRepeat(Held):
    """A request of a newer client, other than a tool call, that answers questions to the model."""

    async def run(self, send: Callable[[bytes], None]) -> bytes:
        """Ask the hooks about the answers, `send` the request, and ask them about its result. Raises `RefusedLineError`."""
        rounds = self._shared.rounds
        params, result = await rounds.answered(self._request["params"])
        if result is not None:
            return result_line(self.id, result)
        line, response = await self._forward(line_of({**self._request, "params": params}), send)
        return await rounds.asked(line, response, self._meta())
