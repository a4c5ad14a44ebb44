"""Publishes the events of a spool to a stream, in a thread and with a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import threading
from typing import TYPE_CHECKING

from ...errors import NatsError, PicohookError
from . import subjects
from .connection import CONNECTING, TOO_LARGE, NatsConnection
from .message import Message, head_of
from .streams import events_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...model.spec import NatsSettings
    from ...observe.log import Log
    from .spool import Spool, Stored

AT_ONCE, BYTES_AT_ONCE = 256, 1 << 20
"""Events that are sent before any of them has to be acknowledged. The next ones follow when all are, so the order is kept."""
ACK_TIMEOUT = 10.0
"""Seconds in which the server has to acknowledge them. Then they are sent again."""
PAUSES = 0.2, 5.0
"""Seconds between two attempts: the first and the longest pause."""
FINISH = 2.0
"""Seconds in which the last events of a host can be sent. The next host sends what is left."""
EVENT_TOO_LARGE = 10054
"""The code of the server's error for an event that is larger than its stream allows."""


class EventPublisher:
    """Publishes what is in a spool, until `finish`. Each event is sent until the server has stored it.

    An event that is larger than the server allows would be in the way of all others, so it is dropped and counted.

    The headers are those of CloudEvents in binary mode. An event that is sent twice has the same `Nats-Msg-Id`, so the server
    stores it once, and a consumer can see that it has it already.
    """

    def __init__(self, settings: NatsSettings, log: Log, *, host: str, stream: str | None = None) -> None:
        self.published = 0
        """How many events the server has stored."""
        self.last_error = ""
        """Why events cannot be published now; empty if they can."""
        self._settings = settings
        self._log = log
        self._stream = stream or events_stream(settings.tenant)
        self._host = host
        self._spool: Spool
        self._inbox = ""
        """The prefix of the subjects at which the server acknowledges events."""
        self._numbers = itertools.count()
        self._acks: dict[str, asyncio.Future[str]] = {}
        """What was sent and is not acknowledged yet, by these subjects; see `_send`."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._some = asyncio.Event()
        """Set when there may be more events to send."""
        self._ending = asyncio.Event()
        self._finishing = False
        self._thread: threading.Thread | None = None

    def start(self, spool: Spool) -> None:
        """Begin to send, in the background."""
        self._spool = spool
        self._thread = threading.Thread(target=self._run, name="picohook events", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Send what is left in at most `FINISH`, unless the server cannot be reached. Called after the spool was closed."""
        self._finishing = True
        self._call(self._ending.set)
        self._call(self._some.set)
        if self._thread is not None:
            self._thread.join(FINISH + 1)

    def _call(self, call: Callable[[], object]) -> None:
        """Call this in the thread, unless that has ended."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)

    # In the thread.

    def _run(self) -> None:
        try:
            asyncio.run(self._publish_all())
        except Exception as error:  # noqa: BLE001 - logged; the events stay in the spool
            self.last_error = str(error)
            self._log.error("events are no longer sent", why=repr(error))

    async def _publish_all(self) -> None:
        from ..event_loop import current_reactor  # noqa: PLC0415 - needs the running loop

        self._loop = asyncio.get_running_loop()
        self._spool.on_kept = lambda: self._call(self._some.set)
        if self._finishing:
            self._ending.set()
        connection = NatsConnection(self._settings, current_reactor(), self._log)
        try:
            publishing = asyncio.ensure_future(self._publish(connection))
            await self._ending.wait()
            if connection.is_connected or (connection.state == CONNECTING and not connection.last_error):
                await asyncio.wait([publishing], timeout=FINISH)
            publishing.cancel()
            await asyncio.wait([publishing])
        finally:
            await connection.aclose()

    async def _publish(self, connection: NatsConnection) -> None:
        """Publish until the spool is empty and the host has ended."""
        self._inbox = f"{connection.inbox_prefix}.{secrets.token_hex(12)}"

        def changed() -> None:
            if not connection.is_connected:
                self._fail(str(connection.unreachable()))
            elif connection.refused:
                self._fail(connection.last_error)

        connection.on_change.add(changed)
        await connection.listen(f"{self._inbox}.*", self._answered)
        pause = PAUSES[0]
        while True:
            try:
                await connection.connected(60)
                await self._publish_kept(connection)
            except Exception as error:  # noqa: BLE001 - whatever it is, the events stay in the spool
                self._note(error)
                await asyncio.to_thread(self._spool.rewind)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSES[1])
            else:
                if self._finishing and not self._some.is_set():
                    return
                pause = PAUSES[0]
                await self._some.wait()

    async def _publish_kept(self, connection: NatsConnection) -> None:
        """Publish all events that are kept now. Raises any error."""
        while True:
            self._some.clear()
            events = await asyncio.to_thread(self._spool.read, AT_ONCE, BYTES_AT_ONCE)
            if not events:
                return
            done = 0
            try:
                async with asyncio.timeout(ACK_TIMEOUT):
                    for ack in [self._send(connection, event) for event in events]:
                        if why := await ack:
                            self._spool.drop(why)
                        else:
                            self.published += 1
                        done += 1
            finally:
                self._acks.clear()
                if done:
                    await asyncio.to_thread(self._spool.acknowledge, events[done - 1])
            if self.last_error:
                self._log.info("events are sent again")
                self.last_error = ""

    def _send(self, connection: NatsConnection, event: Stored) -> asyncio.Future[str]:
        """Send an event. Returns what will be empty when the server has stored it, or say why it never will.

        Raises `PicohookError`, also when that is awaited, if the event has to be sent again.
        """
        ack: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        reply = f"{self._inbox}.{number}"
        try:
            connection.send(Message(self._subject(event), event.body, reply, head_of(self._headers(event))))
        except NatsError as error:
            if error.cause != TOO_LARGE:
                raise
            ack.set_result(str(error))
        else:
            self._acks[reply] = ack
        return ack

    def _answered(self, message: Message) -> None:
        """Take the server's answer to an event."""
        ack = self._acks.get(message.subject)
        if ack is None or ack.done():
            return
        if message.is_from_nobody:
            self._fail(
                f"there is no stream {self._stream} (picohook nats create makes it), or its servers are choosing a leader"
            )
            return
        answer = json.loads(message.data)
        error = answer.get("error")
        if error is None:
            if answer.get("stream") == self._stream:  # otherwise it is not from the stream
                ack.set_result("")
        elif error.get("err_code") == EVENT_TOO_LARGE:
            ack.set_result(f"the stream {self._stream}: {error['description']}")
        else:
            self._fail(f"the stream {self._stream}: {error['description']}")

    def _fail(self, why: str) -> None:
        """Fail the first event that has no answer yet, which is the one that is waited for: all from it on are sent again."""
        ack = next((ack for ack in self._acks.values() if not ack.done()), None)
        self._acks.clear()  # no other one is waited for
        if ack is not None:
            ack.set_exception(PicohookError(why))

    def _note(self, error: Exception) -> None:
        why = str(error) or "the server does not acknowledge them"
        if why != self.last_error:
            self.last_error = why
            self._log.warning("events are not sent, and wait in the spool", why=why)

    def _subject(self, event: Stored) -> str:
        session, kind = event.head["session"] or "-", event.head["kind"].replace(".", "_")
        return subjects.events(self._settings.tenant, session, kind, self._host)

    def _headers(self, event: Stored) -> dict[str, str]:
        """CloudEvents, binary mode."""
        head = event.head
        headers = {
            "Nats-Msg-Id": event.id,
            "Nats-Expected-Stream": self._stream,
            "ce-specversion": "1.0",
            "ce-id": event.id,
            "ce-type": f"picohook.{head['type']}",
            "ce-source": subjects.source(self._settings.tenant, self._host),
            "ce-time": head["time"],
            "content-type": "application/json",
        }
        if head["session"]:
            headers["ce-subject"] = subjects.token(head["session"])
        names = {
            "record": "ce-record",
            "line": "ce-line",
        }  # extensions of CloudEvents; the trace has a header of its own
        return headers | {names.get(name, name): str(value) for name, value in head["more"].items()}
