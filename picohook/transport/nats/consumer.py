"""Reads the events of a tenant from their stream, and gives each to a sink until the sink has stored it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio
from anyio.to_thread import run_sync

from ...errors import NatsError, PicohookError
from ...protocol.codec import decode_value
from ...wire.text import escape
from . import subjects
from .streams import dead_letters, events_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

    from ...observe.log import Log
    from .connection import NatsConnection

AT_ONCE = 200
"""Events that are fetched at once."""
PENDING = 1000
"""Events that may be with consumers, and not acknowledged."""
ACK_WAIT = 30.0
"""Seconds after which an event that was not acknowledged is delivered again."""
MAX_DELIVER = 10
"""How often an event is delivered. Then it is a dead letter."""
KEPT_HEADERS = frozenset({"ce-id", "ce-source", "ce-subject", "ce-time", "ce-type"})
LARGEST_BODY, LONGEST_HEADER = 1 << 18, 1000
"""The headers that a dead letter keeps, and the most bytes of its body and characters of a header."""
LATER = 2.0
"""Seconds after which an event comes again that came too early."""
RETRY = 1.0
"""Seconds after which a failed write is tried again."""


class Received(NamedTuple):
    """An event as it was received."""

    id: str
    source: str
    time: str
    body: dict[str, Any]
    headers: dict[str, str]
    raw: bytes
    last: bool
    """Whether it is not delivered again."""


class Sink(Protocol):
    """The destination of a consumer. Its methods block. They raise `OSError` if the consumer has to try again later."""

    def take(self, event: Received) -> bool:
        """Write an event, unless it was written before. Returns False if others have to come first.

        Raises `ValueError` for an event that can never be written.
        """

    def sync(self) -> None:
        """Write everything through to the disk."""

    def close(self) -> None:
        """Close all files."""


class Consumer:
    """Takes a tenant's events from the stream, in order, and gives each to a sink.

    Several programs with the same `name` share the events. One name writes one log, so start one program for it.
    """

    def __init__(
        self, connection: NatsConnection, sink: Sink, log: Log, *, name: str, tenant: str, stream: str | None = None
    ) -> None:
        self.taken = self.dead = 0
        """How many events were taken, and how many became dead letters."""
        self._connection = connection
        self._sink = sink
        self._log = log
        self._name = name
        self._tenant = tenant
        self._stream = stream or events_stream(tenant)

    async def run(self, *, until_empty: bool = False) -> None:
        """Take events until cancelled, or until there are none. Raises `NatsError` if there is no stream."""
        while True:
            await self._connection.connected(60)
            try:
                await self._connection.run(lambda client: self._consume(client, until_empty=until_empty))
            except NatsError as error:
                if error.cause != "unreachable" or self._connection.is_connected:
                    raise
                await anyio.sleep(RETRY)
            else:
                return

    # In the client's loop.

    async def _consume(self, client: Client, *, until_empty: bool) -> None:
        from nats import errors  # noqa: PLC0415 - an extra
        from nats.js import api, errors as js_errors  # noqa: PLC0415

        js = client.jetstream()
        try:
            await js.add_consumer(
                self._stream,
                api.ConsumerConfig(
                    durable_name=self._name,
                    filter_subject=f"{subjects.PREFIX}.evt.{subjects.token(self._tenant)}.>",
                    ack_policy=api.AckPolicy.EXPLICIT,
                    ack_wait=ACK_WAIT,
                    max_deliver=MAX_DELIVER,
                    max_ack_pending=PENDING,
                ),
            )
            pulled = await js.pull_subscribe_bind(self._name, self._stream)
        except js_errors.NotFoundError:
            raise NatsError(
                f"there is no stream {self._stream} (picohook nats create makes it)", cause="absent"
            ) from None
        except (js_errors.Error, errors.Error, TimeoutError) as error:
            raise NatsError(str(error) or type(error).__name__, cause="unreachable") from None
        try:
            while True:
                if until_empty and await self._is_empty(js):
                    return
                try:
                    messages = await pulled.fetch(AT_ONCE, timeout=0.2 if until_empty else 5.0)
                except TimeoutError:
                    continue
                await self._take_all(js, messages)
        except (js_errors.Error, errors.Error) as error:
            raise NatsError(str(error) or type(error).__name__, cause="unreachable") from None

    async def _is_empty(self, js: JetStreamContext) -> bool:
        state = await js.consumer_info(self._stream, self._name)
        return not state.num_pending and not state.num_ack_pending

    async def _take_all(self, js: JetStreamContext, messages: list[Msg]) -> None:
        verdicts = await self._patiently(messages, lambda: [self._take(message) for message in messages])
        await self._patiently(messages, self._sink.sync)
        for message, verdict in zip(messages, verdicts, strict=True):
            if verdict == "":
                await message.ack()
                self.taken += 1
            elif verdict is None:
                await message.nak(LATER)
            else:
                await self._bury(js, message, verdict)

    def _take(self, message: Msg) -> str | None:
        """Give an event to the sink. Returns None if it came too early; otherwise why it is refused, empty if stored.

        Raises `OSError` if the sink cannot store it now.
        """
        headers = {name.lower(): value for name, value in (message.headers or {}).items()}
        if headers.get("ce-source") != subjects.source_of(message.subject):
            return "it is not from the host that it names as its source"
        try:
            body = decode_value(message.data)
            if not isinstance(body, dict):
                return "its body is not a JSON object"
            event = Received(
                headers["ce-id"],
                headers["ce-source"],
                headers.get("ce-time", ""),
                body,
                headers,
                message.data,
                last=message.metadata.num_delivered >= MAX_DELIVER,
            )
            return "" if self._sink.take(event) else None
        except KeyError:
            return "it has no header ce-id"
        except (ValueError, TypeError) as error:
            return f"it cannot be read: {escape(str(error))[:200]}"

    async def _patiently(self, messages: list[Msg], work: Callable[[], Any]) -> Any:
        """Return what `work` returns. While the disk fails, tell the server that these events are still wanted here."""
        logged = False
        while True:
            try:
                return await run_sync(work)
            except BrokenPipeError:
                raise PicohookError("the program that reads the events has ended") from None
            except OSError as error:
                if not logged:
                    self._log.error("events cannot be written, and wait on the server", why=error.strerror)
                    logged = True
                for message in messages:
                    await message.in_progress()
                await anyio.sleep(RETRY)

    async def _bury(self, js: JetStreamContext, message: Msg, why: str) -> None:
        """Make the event a dead letter: it is kept in the stream, beside the reason, and not delivered again.

        Its own headers and its body are cut, so that with the reason it is not larger than the server allows.
        """
        self._log.error("an event cannot be taken: it is a dead letter now", subject=message.subject, why=why)
        sequence = message.metadata.sequence.stream
        headers = {
            name: value[:LONGEST_HEADER]
            for name, value in (message.headers or {}).items()
            if name.lower() in KEPT_HEADERS
        }
        headers |= {
            "Nats-Msg-Id": f"dead-{self._name}-{sequence}",
            "picohook-sequence": str(sequence),
            "picohook-why": why,
        }
        await js.publish(f"{dead_letters(self._tenant)}.{self._name}", message.data[:LARGEST_BODY], headers=headers)
        await message.term()
        self.dead += 1


def consumer_name(given: str) -> str:
    """The name of a durable consumer. Raises `PicohookError` if it cannot be one."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", given):
        raise PicohookError(f"{json.dumps(given)} cannot be a consumer's name: use letters, digits, _ and -")
    return given
