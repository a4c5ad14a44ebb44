"""One client: lines come in, calls are under way, answers go out as they come.

Calls are done by workers, tasks that wait for the next one: to hand a call to one costs a fraction of a new task. Everything
a client can make grow is bounded. Where it asks faster than it is answered, or does not read its answers, nothing more is read
of it until it has caught up; where that does not help, it is dropped.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
import anyio.to_thread

from ..errors import ConfigError, PicohookError
from ..protocol.lines import LineBuffer
from ..transport.event_loop import current_reactor
from ..turns.errors import RetryLimitError
from ..wire.text import cut
from .questions import is_answer
from .rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REFUSED,
    RETRY_LIMIT,
    SHUTTING_DOWN,
    RpcError,
    answer,
    complaint,
    notification,
    parsed,
    require_request,
)
from .stream import Stream

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from ..observe.log import Log
    from .questions import Questions
    from .table import Table


SHOWN = 100
"""Bytes of a method's name that the log shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take."""

    line: int
    """Bytes of a line, which is a request or a batch."""
    batch: int = 1000
    """Requests in a batch."""
    in_flight: int = 1024
    """Calls at the same time; more wait."""
    unread: int = 1 << 20
    """Bytes of answers that wait to be read, past which nothing more is asked for it."""
    unread_most: int = 64 << 20
    """And past which it is dropped: calls that were under way can come to so much."""
    behind: int = 1024
    """Lines that one who watches may be behind before it is dropped."""
    last_words: float = 2.0
    """Seconds that it may take to read what is left for it, when its connection ends."""


@dataclass(slots=True)
class _Batch:
    """Answers that go out as one line, in the order of the requests."""

    left: int
    answers: list[bytes | None] = field(default_factory=list)


@dataclass(slots=True)
class _Asked:
    """One request, on its own or in a place of a batch."""

    value: Any
    batch: _Batch | None = None
    place: int = 0

    @property
    def identity(self) -> Any:
        return self.value.get("id") if type(self.value) is dict else None


Tell: TypeAlias = "Callable[[str, Any], None]"
"""Sends a notification: its method and its params."""


class State(Protocol):
    """What a connection's methods work on."""

    async def aclose(self) -> None:
        """The connection is over."""


def both_ways(connection: socket.socket) -> tuple[int, int]:
    """A connection's descriptors, to read from and to write to: two, so that either way can be watched alone."""
    write = os.dup(connection.fileno())
    return connection.detach(), write


class Client:
    """A connection. `run` is its life; `finish` and `abort` are how the server ends it."""

    def __init__(
        self,
        table: Table,
        state_of: Callable[[Tell], State],
        descriptors: tuple[int, int],
        *,
        limits: Limits,
        log: Log,
        noun: str,
        questions: Questions | None = None,
    ) -> None:
        """Takes the descriptors, to read from and to write to. `noun` is what it is a client of.

        `questions` are what it is asked in its turn, where it is asked anything.
        """
        self._state = state_of(self.tell)
        self._table = table
        self._limits = limits
        self._log = log
        self._noun = noun
        self._last_words = limits.last_words
        self._lines = LineBuffer(limits.line)
        self._queue: deque[_Asked] = deque()
        self._workers = 0
        self._idle: list[anyio.Event] = []
        self._held = False
        """Calls wait although workers are idle: the client does not read."""
        self._no_more = False
        """Nothing more is read: what was asked is answered, and then it is over."""
        self._over = anyio.Event()
        self._questions = questions
        self._stream = Stream(
            current_reactor(),
            *descriptors,
            on_data=self._received,
            on_end=self.finish,
            on_broken=self._over.set,
            on_written=self._go_on,
        )
        self._tasks: TaskGroup
        if questions is not None:
            questions.begin(self._put, self._put_if_read)

    @property
    def failure(self) -> str:
        """Why it could not be read or answered any more, where it was not the one to go."""
        return self._stream.failure

    async def run(self) -> None:
        """Serve it."""
        try:
            async with anyio.create_task_group() as self._tasks:
                if not self._table.loaded:
                    await anyio.to_thread.run_sync(self._table.load)
                self._go_on()
                await self._over.wait()
                self._tasks.cancel_scope.cancel()
        finally:
            self._read_no_more()
            try:
                with anyio.CancelScope(shield=True):
                    await self._state.aclose()
                    with anyio.move_on_after(self._last_words):
                        await self._stream.emptied()
            finally:
                self._stream.close()
                # What leads back to this goes, so that a line that was not complete is freed at once.
                self._lines.tail = None
                del self._state, self._tasks

    # Ending.

    def finish(self) -> None:
        """Read no more; it is over when all that was asked is answered."""
        self._read_no_more()
        self._end_if_done()

    def _read_no_more(self) -> None:
        self._no_more = True
        self._stream.pause()
        if self._questions is not None:
            self._questions.close()

    def abort(self) -> None:
        """End now. Calls under way are answered with an error."""
        self._read_no_more()
        while self._queue:
            self._settle(asked := self._queue.popleft(), complaint(asked.identity, RpcError(SHUTTING_DOWN)))
        self._over.set()

    def _drop(self) -> None:
        if not self._over.is_set():
            self._log.warning(f"a client of {self._noun} was dropped: it reads too slowly")
            self._last_words = 0.0
            self._over.set()

    def _end_if_done(self) -> None:
        if self._no_more and not self._queue and len(self._idle) == self._workers:
            self._over.set()

    # Requests.

    def _received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if line.strip():
                self._take(line)
        if self._lines.too_long:
            why = f"a line has {self._limits.line} bytes at most"
            self._stream.send(complaint(None, RpcError(INVALID_REQUEST, f"Invalid Request: {why}")) + b"\n")
            self.finish()
        self._go_on()

    def _take(self, line: bytes) -> None:
        try:
            value = parsed(line)
            if type(value) is not list:
                self._ask(_Asked(value))
                return
            if not value:
                raise RpcError(INVALID_REQUEST, "Invalid Request: an empty batch")  # noqa: TRY301
            if len(value) > self._limits.batch:
                why = f"a batch has {self._limits.batch} requests at most"
                raise RpcError(INVALID_REQUEST, f"Invalid Request: {why}")  # noqa: TRY301
        except RpcError as error:
            self._stream.send(complaint(None, error) + b"\n")
            return
        batch = _Batch(len(value), [None] * len(value))
        for place, one in enumerate(value):
            self._ask(_Asked(one, batch, place))

    def _ask(self, asked: _Asked) -> None:
        if self._questions is not None and is_answer(asked.value):
            self._questions.answered(asked.value)
            self._settle(asked, None)
            return
        if self._questions and len(self._queue) >= self._limits.in_flight + self._limits.batch:
            why = "too many calls wait already, behind those that wait for answers of the client's own"
            self._settle(asked, complaint(asked.identity, RpcError(REFUSED, why)))
            return
        self._queue.append(asked)
        if self._idle:
            self._idle.pop().set()
        elif self._workers < self._limits.in_flight:
            self._workers += 1
            self._tasks.start_soon(self._work)

    def _go_on(self) -> None:
        """Read on, or pause."""
        full = self._stream.unsent > self._limits.unread
        if self._held and not full:
            self._held = False
            for _ in range(min(len(self._queue), len(self._idle))):
                self._idle.pop().set()
        if self._no_more:
            return
        # Calls may wait for answers of the client's own: those are read, however many calls wait behind them.
        waits = self._questions is None or not len(self._questions)
        if full or (waits and self._queue and self._workers == self._limits.in_flight):
            self._stream.pause()
        else:
            self._stream.read_on()

    # Calls.

    async def _work(self) -> None:
        # The cancellation ends here: let out of a task, it keeps the frames that it went through, and with them this client.
        with suppress(anyio.get_cancelled_exc_class()):
            while True:
                while not self._queue or self._stream.unsent > self._limits.unread:
                    self._held = bool(self._queue)
                    self._idle.append(ready := anyio.Event())
                    self._end_if_done()
                    await ready.wait()
                await self._do(self._queue.popleft())

    async def _do(self, asked: _Asked) -> None:
        try:
            reply = await self._call(asked.value)
        except anyio.get_cancelled_exc_class():
            self._settle(asked, complaint(asked.identity, RpcError(SHUTTING_DOWN)))
            raise
        self._settle(asked, reply)
        self._go_on()

    async def _call(self, request: Any) -> bytes | None:
        """The answer; None where none is wanted."""
        identity, wanted = None, True
        try:
            require_request(request)
            identity, wanted = request.get("id"), "id" in request
            result = await self._table.prepare(self._state, request)()
            return answer(identity, result) if wanted else None
        except RpcError as error:
            told = error
        except RetryLimitError as error:
            told = RpcError(RETRY_LIMIT, str(error))
        except ConfigError as error:
            told = RpcError(REFUSED, str(error), {"problems": [asdict(problem) for problem in error.problems]})
        except PicohookError as error:
            told = RpcError(REFUSED, str(error))
        except Exception as error:  # noqa: BLE001 - of which the client learns nothing but that it happened
            self._log.error(f"{self._noun} failed", why=repr(error))
            told = RpcError(INTERNAL_ERROR)
        if wanted:
            return complaint(identity, told)
        self._log.info(
            f"a notification to {self._noun} was in vain", method=cut(request["method"], SHOWN), why=str(told)
        )
        return None

    def _settle(self, asked: _Asked, reply: bytes | None) -> None:
        """It is done: its answer goes out, on its own or when its batch is complete."""
        if (batch := asked.batch) is not None:
            batch.answers[asked.place] = reply
            batch.left -= 1
            if batch.left:
                return
            told = [one for one in batch.answers if one is not None]
            reply = b"[%b]" % b",".join(told) if told else None
        if reply is None:
            return
        if self._stream.unsent > self._limits.unread_most:
            self._drop()
        else:
            alone = not self._queue and len(self._idle) == self._workers - 1
            self._stream.send(reply + b"\n", at_once=alone)

    # Telling what was not asked.

    def _put(self, line: bytes) -> bool:
        """A question to the client; whether it goes out."""
        if self._over.is_set():
            return False
        if self._stream.unsent > self._limits.unread_most:
            self._drop()
            return False
        self._stream.send(line)
        self._go_on()
        return True

    def _put_if_read(self, line: bytes) -> bool:
        """Something that the client is told, unless it has much to read already."""
        if self._over.is_set() or self._stream.unsent > self._limits.unread:
            return False
        self._stream.send(line)
        return True

    def tell(self, method: str, params: Any) -> None:
        """A notification to the client."""
        if self._over.is_set():
            return
        if self._stream.waiting >= self._limits.behind:
            self._drop()
        else:
            self._stream.send(notification(method, params) + b"\n")
