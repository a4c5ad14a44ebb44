"""Passes lines between an MCP client and an MCP server, as they are. Tool calls and questions to a model are held for hooks.

An invalid line is not forwarded, and the side that waits for an answer gets an error. Each side is read only as fast as the
other side reads. A held call does not hold up the lines after it.
"""

from __future__ import annotations

import secrets
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ...observe.rate_limit import RateLimit
from ...rpc.jsonrpc import INTERNAL_ERROR, REFUSED
from ...rpc.stream import Stream
from ...transport.event_loop import current_reactor
from ...wire.words import MAX_LINE
from .call import HeldCall
from .held import Shared, left
from .messages import Lines, LongLine, RefusedLineError, error_line, line_of, read_mended, require_allowed, usable_id
from .sampling import HeldSampling
from .tool_list import Pins, ToolList

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from anyio.abc import TaskGroup

    from ...observe.log import Log
    from ...sessions.base_session import BaseSession
    from ...transport.reactor import Promise
    from .approval import ClientApprover
    from .held import Held
    from .messages import Message

UNREAD = 1 << 18
"""Bytes that one side may leave unread. Above that, the proxy stops reading from the other side."""
MOST_OPEN = 10_000
"""The most requests of one side that wait for an answer. Further ones are refused."""
MOST_HELD = 64 << 20
"""Bytes of calls and results that may wait for hooks. Above that, the proxy refuses calls, and stops reading from the server.
It also stops reading from a side that has left that much unread, because it answers some lines of that side itself."""
MOST_IDLE = 16
"""The most tasks that are kept for the next held requests."""
LOGGED, WINDOW = 20, 10.0
"""The number of refused lines that are logged in a window of this many seconds."""


class _Side:
    """The client or the server."""

    def __init__(self, name: str, descriptors: tuple[int, int], proxy: Proxy) -> None:
        self.name = name
        self.ended = False
        """Whether this side has sent its last line."""
        self.asked: dict[Any, str] = {}
        """The methods of this side's requests that have no answer, by id."""
        self.held: dict[Any, Held] = {}
        """This side's requests that hooks decide on, by id, until they are answered."""
        self.alone = True
        """Whether the line that it sent now came alone. Lines that come together are written together."""
        self._lines = Lines(proxy.max_line)
        self._proxy = proxy
        self.stream = Stream(
            current_reactor(),
            *descriptors,
            on_data=self._received,
            on_end=self._ended,
            on_broken=self._ended,
            on_written=proxy.balance,
        )
        self.send = self.stream.send

    def _received(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        self.alone = len(lines) == 1
        for line in lines:
            if isinstance(line, LongLine) or line.strip():
                self._proxy.take(line, self)
        self._proxy.go_on()
        self._proxy.balance()

    def _ended(self) -> None:
        if self._lines.pending and not self.ended:
            self._proxy.warn(self, f"it was not finished: {self._lines.pending} bytes")
        self.end()

    def end(self) -> None:
        """Accept no more lines from it."""
        self.ended = True
        self._proxy.check()

    def close(self) -> None:
        """Close its descriptors."""
        self.stream.close()
        del self._proxy, self.send


class Proxy:
    """The lines between one client and one server."""

    def __init__(
        self,
        session: BaseSession,
        name: str,
        client: tuple[int, int],
        server: tuple[int, int],
        *,
        log: Log,
        pins: Pins | None = None,
        approver: ClientApprover | None = None,
        refused: Collection[str] = (),
        max_line: int = MAX_LINE,
    ) -> None:
        """Take the descriptors of both sides, each to read from and to write to.

        `name` is the server's name to hooks. `refused` are methods for which the server may not ask the client.
        """
        self.max_line = max_line
        self._refused = refused
        self._log = log
        self._reactor = current_reactor()
        self._logged = RateLimit(LOGGED, WINDOW)
        self._changed = anyio.Event()
        self._held = 0
        self._tools = ToolList(session, name, pins or Pins(), log)
        self._lists = 0
        """The number of lists of tools that hooks are asked about."""
        self._questions: dict[Any, Promise] = {}
        """The answers to the proxy's own requests to the client."""
        self._waiting: deque[tuple[Held, _Side, _Side]] = deque()
        """The held requests that no task runs yet, with their sender and receiver."""
        self._idle: list[tuple[Promise, Any]] = []
        """The condition that idle tasks wait for, as `Reactor.settle` takes it."""
        self._due: list[tuple[Promise, Any]] = []
        """The work to settle when all lines that were read now are taken."""
        self._shared = Shared(self._reactor, session, name, self._tools, approver)
        if approver is not None:
            approver.session, approver.ask = session, self.ask_client
        self.client = _Side("the client", client, self)
        self.server = _Side("the server", server, self)
        self._tasks: TaskGroup

    # Life.

    async def run(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Pass lines until one side ends. `stop` ends the server, and returns when its output has been read."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self.balance()
                await self._until(self._is_over)
                self.server.stream.close_write()
                await stop()
                self.server.end()
                for call in self.client.held.values():
                    if not call.answered:
                        call.cancel()
                await self._until(lambda: self.client.stream.broken or not (self.client.held or self._lists))
                await self.client.stream.emptied()
                self._tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await stop()
            self.client.close()
            self.server.close()
            del self._tasks

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._changed = anyio.Event()
            await self._changed.wait()

    def _is_over(self) -> bool:
        client = self.client
        if client.ended and all(call.sent for call in client.held.values()):
            self.server.stream.close_write()
        return self.server.ended or client.stream.broken or (client.ended and not client.asked)

    def check(self) -> None:
        """End the connection if it is over. Call this when something has changed."""
        if self.client.ended or self.server.ended:
            self._changed.set()
        if self.client.ended:
            gone, self._questions = [(answer, None) for answer in self._questions.values()], {}
            self._reactor.soon(partial(self._reactor.settle, gone))  # not now: lines may be passed on at the moment

    def balance(self) -> None:
        """Read from each side, or pause while the other side has too much to read."""
        client, server = self.client.stream, self.server.stream
        if self.client.ended or server.unsent > UNREAD or client.unsent > MOST_HELD:
            client.pause()
        else:
            client.read_on()
        if client.unsent > UNREAD or max(self._held, server.unsent) > MOST_HELD:
            server.pause()
        else:
            server.read_on()

    # Lines.

    def take(self, line: bytes | LongLine, sender: _Side) -> None:
        """Pass a line on, or hold it."""
        receiver = self.server if sender is self.client else self.client
        try:
            if isinstance(line, LongLine):
                raise RefusedLineError.unread(line, f"it has more than {self.max_line} bytes")
            own, message = read_mended(line)  # if hooks decide, `own` is forwarded: it is what they are asked about
            if sender is self.server:
                require_allowed(message, self._refused)
            method = message.get("method")
            held = receiver.held.get(message.get("id")) if method is None else None
            if held is not None:
                self._due.append(held.take(own + b"\n", message))
                self._weigh(held, len(line))
            elif method == ("tools/call" if sender is self.client else "sampling/createMessage"):
                self._hold(HeldCall if sender is self.client else HeldSampling, own, message, sender, receiver)
            else:
                self._pass(line, own, message, sender, receiver)
        except RefusedLineError as error:
            self._refuse(error, sender, receiver)

    def _pass(self, line: bytes, own: bytes, message: Message, sender: _Side, receiver: _Side) -> None:
        identity = message.get("id")
        if "method" in message:
            if identity is not None:
                self._open(identity, message["method"], sender)
                if sender is self.client and self._shared.approver is not None and message["method"] == "initialize":
                    self._shared.approver.initialized(message.get("params", {}))
            elif message["method"] == "notifications/cancelled" and self._cancel(message, sender):
                return
        elif identity in self._questions and sender is self.client:
            self._due.append((self._questions.pop(identity), message.get("result")))
            return
        elif identity is not None:
            method = receiver.asked.pop(identity, None)
            if method is None:
                self._log.info("an answer of MCP that nothing waits for was dropped", side=sender.name)
                return
            if receiver is self.client and method == "tools/list":
                self._lists += 1
                self._tasks.start_soon(self._filter, own + b"\n", message)
                return
        receiver.stream.send(line + b"\n", at_once=sender.alone)
        self.check()

    def _open(self, identity: Any, method: str, sender: _Side) -> None:
        if identity in sender.asked:
            raise RefusedLineError("its id is that of a request that has no answer yet", asks=identity)
        if len(sender.asked) >= MOST_OPEN:
            raise RefusedLineError("too many requests have no answer yet", asks=identity)
        sender.asked[identity] = method

    def _refuse(self, error: RefusedLineError, sender: _Side, receiver: _Side) -> None:
        """Log a line that is not forwarded. Answer the side that asked, or that expected the answer."""
        self.warn(sender, str(error))
        if error.asks is not None and error.asks not in sender.asked:
            sender.send(error_line(error.asks, str(error)))
        elif error.answers is not None:
            call = receiver.held.get(error.answers)
            if call is not None and (not call.sent or call.answered):
                return
            if receiver.asked.pop(error.answers, None) is not None:
                if call is not None:
                    del receiver.held[error.answers]
                    call.cancel()
                receiver.send(error_line(error.answers, f"the answer was refused: {error}", REFUSED))
        elif sender is self.client:  # a server may print other things, and expects no answer to them
            sender.send(error_line(None, str(error)))

    def warn(self, sender: _Side, why: str) -> None:
        """Log that a line is not forwarded."""
        if self._logged.take(self._reactor.now()):
            self._log.warning("refused a line of MCP", side=sender.name, why=why)

    async def ask_client(self, method: str, params: dict[str, Any]) -> Any:
        """The client's result for a request of the proxy's own; None if it answers with an error, or has ended."""
        if self.client.ended:
            return None
        identity = f"picohook-{secrets.token_hex(8)}"
        answer = self._questions[identity] = self._reactor.promise(left)
        self.client.send(line_of({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}))
        try:
            return await answer
        except anyio.get_cancelled_exc_class():
            cancelled = {"method": "notifications/cancelled", "params": {"requestId": identity}}
            self.client.send(line_of({"jsonrpc": "2.0", **cancelled}))
            raise
        finally:
            self._questions.pop(identity, None)

    # What hooks decide on.

    def _hold(self, kind: type[Held], line: bytes, message: Message, sender: _Side, receiver: _Side) -> None:
        if "id" not in message:
            raise RefusedLineError(f"a request {message['method']} has no id")
        if self._held > MOST_HELD:
            raise RefusedLineError("too many requests wait for hooks", asks=message["id"])
        call = kind(self._shared, line + b"\n", message)
        self._open(call.id, message["method"], sender)
        sender.held[call.id] = call
        self._weigh(call, len(line))
        self._waiting.append((call, sender, receiver))
        if self._idle:
            self._due.append(self._idle.pop())
        else:
            self._tasks.start_soon(self._work)

    def go_on(self) -> None:
        """Continue held requests, after all lines that were read now: one of them may cancel another."""
        due, self._due = self._due, []
        self._reactor.settle(due)  # on asyncio they run here

    def _weigh(self, call: Held, size: int) -> None:
        self._held += size - call.held
        call.held = size

    async def _work(self) -> None:
        """Run held requests, one after another. A task and a cancel scope for each would cost a fifth of a call."""
        while True:
            with anyio.CancelScope() as scope:  # until a request in it is cancelled
                while not scope.cancel_called:
                    if self._waiting:
                        await self._run(*self._waiting.popleft(), scope)
                    elif len(self._idle) < MOST_IDLE:
                        ready = self._reactor.promise(left)
                        self._idle.append((ready, None))
                        await ready
                    else:
                        return

    async def _run(self, call: Held, sender: _Side, receiver: _Side, scope: anyio.CancelScope) -> None:
        def send(line: bytes) -> None:
            self._weigh(call, 0)
            receiver.stream.send(line, at_once=sender.alone)

        call.scope = scope
        try:
            if call.cancelled:
                return
            answer = await self._made(call.id, call.run(send), receiver)
            if not call.cancelled:
                sender.stream.send(answer, at_once=receiver.alone)
        finally:
            call.scope = None
            self._weigh(call, 0)
            if sender.held.get(call.id) is call:
                del sender.held[call.id], sender.asked[call.id]
            self.balance()
            self.check()

    async def _filter(self, line: bytes, response: Message) -> None:
        try:
            self.client.send(await self._made(response["id"], self._tools.filter(line, response), self.server))
        finally:
            self._lists -= 1
            self.balance()
            self.check()

    async def _made(self, identity: Any, answer: Awaitable[bytes], of: _Side) -> bytes:
        """The answer of a side to a request, or a line with an error."""
        try:
            return await answer
        except RefusedLineError as error:
            self.warn(of, str(error))
            return error_line(identity, f"the answer was refused: {error}", REFUSED)
        except Exception as error:  # the client is not told what it was
            self._log.error("a request of MCP failed", why=repr(error))
            return error_line(identity, "the request failed", INTERNAL_ERROR)

    def _cancel(self, message: Message, sender: _Side) -> bool:
        """Note that a request was cancelled. Returns whether it was held, and never forwarded."""
        identity = usable_id(message.get("params", {}).get("requestId"))
        if identity is None:
            return False
        sender.asked.pop(identity, None)
        call = sender.held.pop(identity, None)
        if call is None:
            return False
        call.cancel()
        return not call.sent
