"""One connection: lines are read, calls run at the same time, answers are written as they are ready.

Workers run the calls. They are tasks that wait for the next call, which costs a fraction of a new task for each. On asyncio an
idle worker continues in the callback that reads the request.

All memory that a client can make grow is bounded. If a client asks faster than it is answered, or does not read its answers,
the server stops reading from it until it has caught up. If that does not help, the client is dropped.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel

from ..calls.rounds import RetryLimitError
from ..errors import ConfigError, PicohookError
from ..protocol.codec import TooManyValuesError, decode_value
from ..protocol.lines import LineBuffer
from ..transport.event_loop import current_reactor
from ..wire.text import cut
from .jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    REFUSED,
    RETRY_LIMIT,
    SHUTTING_DOWN,
    RpcError,
    error_response,
    notification,
    require_request,
    response,
)
from .outgoing import OutgoingRequests, is_response
from .stream import Stream

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ..observe.log import Log
    from ..transport.reactor import Promise
    from .dispatch import Dispatcher


AT_ONCE = 32
"""The number of requests that one worker answers before other tasks get a turn."""
_NOT_JSON = error_response(None, RpcError(PARSE_ERROR)) + b"\n"
"""The answer to a line that is not JSON. It is made once, because thousands of such lines may be read together."""
SHOWN_OF_METHOD = 100
"""Bytes of a method's name that the log shows."""


@dataclass(slots=True)
class _Batch:
    """Answers that are written as one line, in the order of the requests."""

    missing: int
    answers: list[bytes | None]


_Request: TypeAlias = tuple[Any, "_Batch | None", int]
"""A decoded request, its batch if it came in one, and its place in the batch. A tuple, because every line makes one."""


def _identity(value: Any) -> Any:
    """The id of a request, which may be anything."""
    return value.get("id") if type(value) is dict else None


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds of the memory that one client can make the server use."""

    line: int
    """The most bytes of a line, which is a request or a batch."""
    batch: int = 1000
    """The most requests in a batch."""
    in_flight: int = 1024
    """The most calls at the same time. Further ones wait, and no more is read."""
    unread: int = 1 << 20
    """Bytes of answers that the client has not read. Past that, no more calls begin and no more is read."""
    unread_max: int = 64 << 20
    """Bytes past which the client is dropped: calls that have begun, and what it watches, can still add that many."""
    drain: float = 2.0
    """Seconds that it has to read the rest when its connection ends."""


def _left(_: object) -> None:
    """Called when an idle worker is cancelled, which needs nothing: its connection ends."""


def two_descriptors(connection: socket.socket) -> tuple[int, int]:
    """Returns a connection's descriptors, to read from and to write to. With two, each direction can be watched alone."""
    write = os.dup(connection.fileno())
    return connection.detach(), write


class Connection:
    """A client's connection. `run` serves it; `finish` and `abort` end it."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        context_for: Callable[[Connection], Any],
        descriptors: tuple[int, int],
        *,
        limits: ConnectionLimits,
        log: Log,
        noun: str,
        takes_responses: bool = False,
    ) -> None:
        """Takes the descriptors, to read from and to write to. `noun` names the server in the log.

        `context_for` makes what its methods are called with; its `aclose` is called at the end.

        With `takes_responses` the server makes requests of its own. Without it, a response is an invalid request.
        """
        self.outgoing = OutgoingRequests(self._send)
        self._takes_responses = takes_responses
        self._context = context_for(self)
        self._dispatcher = dispatcher
        self._limits = limits
        self._log = log
        self._noun = noun
        self._drain = limits.drain
        self._lines = LineBuffer(limits.line)
        self._queue: deque[_Request] = deque()
        self._most_queued = limits.in_flight + limits.batch
        """The most requests that may wait while open calls wait for the client's own answers."""
        self._workers = 0
        self._idle: list[tuple[Promise, None]] = []
        """The promises that idle workers wait for, as `Reactor.settle` takes them."""
        self.held = False
        """Whether calls wait although workers are idle, because the client does not read."""
        self._finishing = False
        """Whether reading is over. The connection ends when all open requests are answered."""
        self._ended = anyio.Event()
        self._reactor = current_reactor()
        self.stream = Stream(
            self._reactor,
            *descriptors,
            on_data=self._received,
            on_end=self.finish,
            on_broken=self._ended.set,
            on_written=self._resume,
        )
        self._tasks: TaskGroup

    async def run(self) -> None:
        """Serve it until it ends."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._resume()
                await self._ended.wait()
                self._tasks.cancel_scope.cancel()
        finally:
            self._stop_reading()
            try:
                with anyio.CancelScope(shield=True):
                    await self._context.aclose()
                    with anyio.move_on_after(self._drain):
                        await self.stream.emptied()
            finally:
                self.stream.close()
                # These refer back to this object. Without them, an incomplete line is freed at once.
                self._lines.tail = None
                del self._context, self._tasks

    # Ending.

    def finish(self) -> None:
        """Read no more, and end when all open requests are answered."""
        self._stop_reading()
        self._end_if_done()

    def _stop_reading(self) -> None:
        self._finishing = True
        self.stream.pause()
        self.outgoing.close()

    def abort(self) -> None:
        """End now. Open calls are answered with an error."""
        self._stop_reading()
        while self._queue:
            request = self._queue.popleft()
            self._answer(request, error_response(_identity(request[0]), RpcError(SHUTTING_DOWN)))
        self._ended.set()

    def _drop(self) -> None:
        if not self._ended.is_set():
            self._log.warning(f"a client of {self._noun} was dropped: it reads too slowly")
            self._drain = 0.0
            self._ended.set()

    def _end_if_done(self) -> None:
        if self._finishing and not self._queue and len(self._idle) == self._workers:
            self._ended.set()

    # Requests.

    def _received(self, data: bytes) -> None:
        before = len(self._queue)
        for line in self._lines.feed(data):
            if line.strip():
                self._take(line)
        self._start(len(self._queue) - before)  # together, so that their questions and answers share writes
        if self._lines.too_long:
            self._reject(RpcError.because(INVALID_REQUEST, f"a line has {self._limits.line} bytes at most"))
            self.finish()
        if self._queue or self.stream.unsent:
            self._resume()

    def _reject(self, error: RpcError) -> None:
        """Answer a line that has no request."""
        self.stream.send(error_response(None, error) + b"\n")

    def _take(self, line: bytes) -> None:
        try:
            value = decode_value(line)
        except TooManyValuesError as error:
            if self._takes_responses and not error.is_request:
                self.outgoing.take({"id": error.id, "error": {"message": str(error)}})
            else:
                self.stream.send(error_response(error.id, RpcError.because(INVALID_REQUEST, str(error))) + b"\n")
            return
        except ValueError:
            self.stream.send(_NOT_JSON)
            return
        if type(value) is not list:
            self._enqueue((value, None, 0))
        elif not value:
            self._reject(RpcError.because(INVALID_REQUEST, "an empty batch"))
        elif len(value) > self._limits.batch:
            self._reject(RpcError.because(INVALID_REQUEST, f"a batch has {self._limits.batch} requests at most"))
        else:
            batch = _Batch(len(value), [None] * len(value))
            for index, one in enumerate(value):
                self._enqueue((one, batch, index))

    def _enqueue(self, request: _Request) -> None:
        value = request[0]
        if self._takes_responses and is_response(value):
            self.outgoing.take(value)
            self._answer(request, None)
            return
        if len(self._queue) >= self._most_queued and self.outgoing:
            why = "too many calls wait already, because open ones wait for the client's own answers"
            self._answer(request, error_response(_identity(value), RpcError(REFUSED, why)))
            return
        self._queue.append(request)

    def _start(self, count: int) -> None:
        """Start the last `count` calls of the queue, as far as the limit allows."""
        if not count:
            return
        woken = self._idle[-count:]
        del self._idle[-count:]
        if len(woken) < count:
            for _ in range(min(count - len(woken), self._limits.in_flight - self._workers)):
                self._workers += 1
                self._tasks.start_soon(self._work)
        self._reactor.settle(woken)  # last: on asyncio the workers run here

    def _start_held(self) -> None:
        self._start(min(len(self._queue), len(self._idle)))

    def _resume(self) -> None:
        """Read on, or pause, depending on the calls that wait and the answers that the client has not read."""
        full = self.stream.unsent > self._limits.unread
        if self.held and not full:
            self.held = False
            self._reactor.soon(self._start_held)  # not now: the stream may be in the middle of writing
        if self._finishing:
            return
        # Open calls may wait for the client's own answers, so those are read however many calls are queued.
        busy = bool(self._queue) and self._workers == self._limits.in_flight
        if full or (busy and not self.outgoing):
            self.stream.pause()
        elif not self.stream.reading:
            self.stream.read_on()

    # Calls.

    async def _work(self) -> None:
        # A cancellation that escaped the task would keep its frames alive, and with them this connection.
        stream, unread = self.stream, self._limits.unread
        with suppress(anyio.get_cancelled_exc_class()):
            at_once = 0
            while True:
                while not self._queue or stream.unsent > unread:
                    self.held = bool(self._queue)
                    ready = self._reactor.promise(_left)
                    self._idle.append((ready, None))
                    if self._finishing:
                        self._end_if_done()
                    await ready
                    at_once = 0
                at_once += 1
                if at_once > AT_ONCE:
                    await anyio.lowlevel.checkpoint()
                    at_once = 0
                    continue
                request = self._queue.popleft()
                try:
                    answer = await self._call(request[0])
                except anyio.get_cancelled_exc_class():
                    self._answer(request, error_response(_identity(request[0]), RpcError(SHUTTING_DOWN)))
                    raise
                self._answer(request, answer)
                del request, answer  # an idle worker keeps nothing of what a client sent
                if not stream.reading or stream.unsent > unread:
                    self._resume()

    async def _call(self, request: Any) -> bytes | None:
        """The answer; None for a notification."""
        identity, answered = None, True
        try:
            require_request(request)
            identity, answered = request.get("id"), "id" in request
            result = await self._dispatcher.dispatch(self._context, request)()
            return response(identity, result) if answered else None
        except RpcError as error:
            failure = error
        except RetryLimitError as error:
            failure = RpcError(RETRY_LIMIT, str(error))
        except ConfigError as error:
            failure = RpcError(REFUSED, str(error), {"problems": [asdict(problem) for problem in error.problems]})
        except PicohookError as error:
            failure = RpcError(REFUSED, str(error))
        except Exception as error:  # logged here; the client is not told what it was
            self._log.error(f"{self._noun} failed", why=repr(error))
            failure = RpcError(INTERNAL_ERROR)
        if answered:
            return error_response(identity, failure)
        self._log.info(
            f"a notification to {self._noun} failed", method=cut(request["method"], SHOWN_OF_METHOD), why=str(failure)
        )
        return None

    def _answer(self, request: _Request, answer: bytes | None) -> None:
        """Write the answer, or the batch that it completes."""
        _, batch, index = request
        if batch is not None:
            batch.answers[index] = answer
            batch.missing -= 1
            if batch.missing:
                return
            answers = [one for one in batch.answers if one is not None]
            answer = b"[%b]" % b",".join(answers) if answers else None
        if answer is None:
            return
        if self.stream.unsent > self._limits.unread_max:
            self._drop()
        else:
            alone = not self._queue and len(self._idle) == self._workers - 1
            self.stream.send(answer + b"\n", at_once=alone)

    # Requests and notifications to the client.

    def _send(self, line: bytes) -> bool:
        """Send a line. Returns whether it could be sent."""
        if self._ended.is_set():
            return False
        if self.stream.unsent > self._limits.unread_max:
            self._drop()
            return False
        self.stream.send(line)
        self._resume()
        return True

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Drops the client if it is too far behind."""
        self._send(notification(method, params) + b"\n")
