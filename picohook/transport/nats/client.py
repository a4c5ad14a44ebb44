"""The client of nats-py, with a short way for the messages of hooks.

nats-py reads in a task, reads all headers of a message, hands it to a task of its subscription, and checks each header that is
sent. For a question that costs more than all the rest. The short way gives a message to its callback as soon as it comes, and
sends it in one piece. It uses parts of nats-py that are not public. If they are not there, everything goes the public way.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from nats.aio.client import Client as PublicClient

from .direct_reading import DirectReading
from .message import Message, head_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

CLOSE = 1.0
"""Seconds for the last messages, and for the end of a connection. A server that is stopped takes neither."""
A_WRITE = 32
"""How many messages share a write at the most. So the other side begins with the first ones while others are made."""
_PARTS = ("_pending", "_pending_data_size", "_flush_queue", "_transport", "_ps")
_RECEIVED = ("self", "sid", "subject", "reply", "data", "headers")
"""The parameters of `_process_msg`."""


class Client(PublicClient):
    """A client that takes and gives whole messages."""

    def __init__(self) -> None:
        super().__init__()
        receives = inspect.signature(getattr(PublicClient, "_process_msg", object))
        self.has_short_way = all(hasattr(self, name) for name in _PARTS) and tuple(receives.parameters) == _RECEIVED
        """Whether this version of nats-py has the parts that the short way needs."""
        self._callbacks: dict[int, Callable[[Message], None]] = {}
        self._after_read: list[Callable[[], None]] = []
        self._will_write = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, subject: str, queue: str, callback: Callable[[Message], None], pending: int) -> Subscription:
        """Call back with each message to this subject. Of those that wait, no more than `pending` are kept."""

        async def received(message: Msg) -> None:
            callback(Message(message.subject, message.data, message.reply, head_of(message.headers or {})))
            self._have_read()

        subscription = await self.subscribe(subject, queue=queue, cb=received, pending_msgs_limit=pending)
        if self.has_short_way:
            self._callbacks[subscription._id] = callback  # noqa: SLF001 - of the library, and so are those below
        return subscription

    async def end(self) -> None:
        """Write all waiting messages, and close the connection even if the server reads nothing."""
        if self.is_closed:
            return
        if self.is_connected:
            with contextlib.suppress(Exception):  # it closes
                await self.flush(CLOSE)  # type: ignore[arg-type]  # it takes fractions
        closing = asyncio.get_running_loop().create_task(self.close())
        await asyncio.wait([closing], timeout=CLOSE)
        if not closing.done() and (writer := self._writer()) is not None:
            writer.transport.abort()
            await asyncio.wait([closing], timeout=CLOSE)
        closing.cancel()

    def _writer(self) -> asyncio.StreamWriter | None:
        """The stream to the server. None if it is not known."""
        return getattr(self._transport, "_io_writer", None)

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._callbacks.pop(sid, None)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if self._take(sid, subject, reply, data, headers or b""):
            self._have_read()
        else:
            await super()._process_msg(sid, subject, reply, data, headers)

    def _take(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes) -> bool:
        """Give a message to its callback. Returns whether it has one."""
        callback = self._callbacks.get(sid)
        if callback is None:
            return False
        try:
            callback(Message(subject.decode(), data, reply.decode(), head))
        except Exception as error:  # noqa: BLE001 - it must not end the connection
            self._start(self._error_cb(error))
        return True

    def _connect_command(self) -> bytes:
        writer = self._writer()
        if writer is not None and writer.get_extra_info("sslcontext") is not None:
            protocol: Any = writer.transport.get_protocol()
            protocol._over_ssl = True  # noqa: SLF001 - it was not encrypted before: asyncio would warn at its end
        return super()._connect_command()

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        writer, reader = self._writer(), getattr(self._transport, "_io_reader", None)
        if self.has_short_way and writer is not None and reader is not None and hasattr(reader, "_buffer"):
            protocol: Any = writer.transport.get_protocol()
            writer.transport.set_protocol(DirectReading(protocol, reader, self._ps, self._take, self._have_read))

    def after_read(self, callback: Callable[[], None]) -> None:
        """Call back when the messages that came together have been given to their callbacks. Called in such a callback."""
        self._after_read.append(callback)

    def _have_read(self) -> None:
        """Call those that waited for this. What they send shares a write."""
        self._will_write = True
        try:
            while self._after_read:
                self._after_read.pop(0)()
        except Exception as error:  # noqa: BLE001 - it must not end the connection
            self._start(self._error_cb(error))
        finally:
            self._write()

    def send(self, message: Message, at_once: bool) -> None:  # noqa: FBT001 - by position: the loop calls it
        """Send a message, if there is a connection. Without `at_once`, it shares a write with others of the loop's round."""
        if not self.is_connected:
            return
        if not self.has_short_way:
            self._start(self.publish(message.subject, message.data, message.reply, message.headers or None))
            return
        line = message.line()
        self._pending.append(line)
        self._pending_data_size += len(line)
        if len(self._pending) >= A_WRITE or (at_once and not self._will_write):
            self._write()
        elif not self._will_write:
            self._will_write = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write what waits, or leave it to nats-py, which waits until the server takes more."""
        self._will_write = False
        if not self._pending or not self.is_connected:
            return
        writer = self._writer()
        if writer is not None and not writer.transport.is_closing() and not writer.transport.get_write_buffer_size():
            data = b"".join(self._pending)
            self._pending.clear()
            self._pending_data_size = 0
            writer.transport.write(data)
        elif self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.Future())

    def _start(self, work: Any) -> None:
        """Run this in a task. Its failure is that of the connection, whose owner hears of it."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop keeps no reference to it
        task.add_done_callback(ended)
