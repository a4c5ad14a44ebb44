"""Publishes the events of a spool to a stream, in a thread and with a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from . import subjects
from .connection import CONNECTING, NatsConnection
from .streams import events_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.js import JetStreamContext

    from ...model.spec import NatsSettings
    from ...observe.log import Log
    from .spool import Spool, Stored

AT_ONCE = 256
"""Events that are sent before any of them has to be acknowledged. The next ones follow when all are, so the order is kept."""
ACK_TIMEOUT = 3.0
"""Seconds in which the server has to acknowledge them. Then they are sent again."""
PAUSES = 0.2, 5.0
"""Seconds between two attempts: the first and the longest pause."""
FINISH = 2.0
"""Seconds in which the last events of a host can be sent. The next host sends what is left."""
SOURCE = "/picohook/{tenant}/hosts/{host}"


class EventPublisher:
    """Publishes what is in a spool, until `finish`. Each event is sent until the server has stored it.

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
        self._source = SOURCE.format(tenant=subjects.token(settings.tenant), host=subjects.token(host))
        self._spool: Spool
        self._loop: asyncio.AbstractEventLoop | None = None
        self._some: asyncio.Event
        """Set when there may be more events to send."""
        self._ending: asyncio.Event
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

        self._some, self._ending = asyncio.Event(), asyncio.Event()
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
        pause = PAUSES[0]
        context: tuple[Client, JetStreamContext] | None = None
        while True:
            try:
                await connection.connected(60)
                client = await connection.run(_itself)
                if context is None or context[0] is not client:
                    context = client, client.jetstream(publish_async_max_pending=2 * AT_ONCE)
                await self._publish_kept(context[1])
            except Exception as error:  # noqa: BLE001 - whatever it is, the events stay in the spool
                self._note(error, connection)
                await asyncio.to_thread(self._spool.rewind)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSES[1])
            else:
                if self._finishing and not self._some.is_set():
                    return
                pause = PAUSES[0]
                await self._some.wait()

    async def _publish_kept(self, js: JetStreamContext) -> None:
        """Publish all events that are kept now. Raises any error."""
        while True:
            self._some.clear()
            events = await asyncio.to_thread(self._spool.read, AT_ONCE)
            if not events:
                return
            done = 0
            try:
                async with asyncio.timeout(ACK_TIMEOUT):
                    acks = [
                        await js.publish_async(self._subject(event), event.body, headers=self._headers(event))
                        for event in events
                    ]
                    for ack in acks:
                        await ack
                        done += 1
            finally:
                if done:
                    self.published += done
                    await asyncio.to_thread(self._spool.acknowledge, events[done - 1])
            if self.last_error:
                self._log.info("events are sent again")
                self.last_error = ""

    def _subject(self, event: Stored) -> str:
        head = event.head
        return subjects.events(self._settings.tenant, head["session"] or "-", head["kind"].replace(".", "_"))

    def _headers(self, event: Stored) -> dict[str, Any]:
        """CloudEvents, binary mode."""
        head = event.head
        headers = {
            "Nats-Msg-Id": event.id,
            "Nats-Expected-Stream": self._stream,
            "ce-specversion": "1.0",
            "ce-id": event.id,
            "ce-type": f"picohook.{head['type']}",
            "ce-source": self._source,
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

    def _note(self, error: Exception, connection: NatsConnection) -> None:
        why = str(error) or connection.last_error or "the server does not acknowledge them"
        if "no response from stream" in why:
            why = f"there is no stream {self._stream}: picohook nats create makes it"
        if why != self.last_error:
            self.last_error = why
            self._log.warning("events are not sent, and wait in the spool", why=why)


async def _itself(client: Client) -> Client:
    return client
