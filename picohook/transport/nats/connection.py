"""One connection to NATS, which all parts of a host share. It works on asyncio and on trio."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import socket
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import NatsError, PicohookError
from ...wire.extras import how_to_install
from . import subjects
from .client_loop import client_loop
from .message import Message, head_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from nats.aio.subscription import Subscription

    from ...model.spec import NatsSettings
    from ...observe.log import Log
    from ..reactor import Reactor
    from .client import Client

CONNECTING, CONNECTED, DISCONNECTED, CLOSED = "connecting", "connected", "disconnected", "closed"
UNREACHABLE, FORBIDDEN, TOO_LARGE = "unreachable", "forbidden", "too_large"

RECONNECT_WAIT = (0.2, 0.6)
"""Seconds between two attempts to connect. Each connection takes a random time between these, to spread the load."""
CONNECT_TIMEOUT = 2.0
PING_INTERVAL = 5.0
MISSED_PINGS = 2
"""How many pings may be without an answer. One more, and the connection counts as lost."""
MAX_OUTBOUND = 16 << 20
"""The most bytes that may wait to be written to the server."""
PENDING_MESSAGES = 65_536
"""The most messages of one subscription that may wait in this process."""

_REFUSED = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class Listening:
    """A subscription. It is restored with the connection."""

    __slots__ = ("_connection", "callback", "queue", "subject", "subscription")

    def __init__(
        self, connection: NatsConnection, subject: str, callback: Callable[[Message], None], queue: str
    ) -> None:
        self._connection = connection
        self.subject = subject
        self.callback = callback
        self.queue = queue
        self.subscription: Subscription | None = None

    async def stop(self, *, drain: bool = True) -> None:
        """Take no more messages. The server hands those that it has not sent yet to other members of the queue group.

        With `drain`, returns when `callback` has been called with the messages that were sent already.
        """
        await self._connection._unlisten(self, drain=drain)  # noqa: SLF001 - its own part


class NatsConnection:
    """A connection that is restored when it is lost.

    `on_change` has functions that are called, in the host's loop, whenever `state` or `refused` may have changed.
    """

    def __init__(self, settings: NatsSettings, reactor: Reactor, log: Log) -> None:
        """Begins to connect at once, in the background. Raises `PicohookError` if nats-py is not installed."""
        _require_nats()
        self.settings = settings
        self.state = CONNECTING
        self.last_error = ""
        """Why there is no connection, or the subject that the server last refused."""
        self.refused: frozenset[str] = frozenset()
        """The subjects that this user may not publish or listen to, as far as the server said; in lower case."""
        self.on_change: set[Callable[[], None]] = set()
        self.inbox_prefix = subjects.inbox(settings.host or socket.gethostname())
        """The prefix of the subjects at which this host gets answers."""
        self._log = log.bind(servers=", ".join(settings.servers))
        self._client: Client | None = None
        self._listening: dict[Listening, None] = {}
        self._changed = anyio.Event()
        self._loop = client_loop(reactor)
        self._loop.start(self._keep)

    # The interface.

    def publish(
        self, subject: str, body: bytes = b"", *, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Send a message. It is written soon after. Raises `NatsError` if it cannot be sent."""
        self.send(Message(subject, body, reply, head_of(headers or {})))

    def send(self, message: Message, *, at_once: bool = False) -> None:
        """Send a message, as `publish` does. With `at_once`, it does not wait for others to share a write with."""
        client = self._client
        if client is None or not client.is_connected:
            raise self.unreachable()
        size, waiting = len(message.data) + len(message.head), client.pending_data_size
        if size > client.max_payload:
            raise NatsError(
                f"a message of {size} bytes is over the server's limit of {client.max_payload}", cause=TOO_LARGE
            )
        if waiting + size > MAX_OUTBOUND:
            raise NatsError(f"{waiting} bytes wait to be sent to the server", cause=UNREACHABLE)
        self._loop.soon(client.send, message, at_once)

    def after_read(self, callback: Callable[[], None]) -> None:
        """Call back when the messages that came together have been given to their callbacks. Called in such a callback.

        What is sent then shares writes. Calls back at once if it is not known which messages came together.
        """
        if self._loop.is_here and self._client is not None:
            self._client.after_read(callback)
        else:
            callback()

    async def listen(self, subject: str, callback: Callable[[Message], None], *, queue: str = "") -> Listening:
        """Call back with each message to this subject, in the host's loop. Works while there is no connection, too."""
        listening = Listening(self, subject, callback, queue)
        self._listening[listening] = None
        await self._loop.run(functools.partial(self._subscribe, listening))
        return listening

    async def flush(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - of the server, and not of the caller
        """Wait until the server has taken all that was sent, subscriptions too. Raises `NatsError`."""

        async def flush() -> None:
            try:
                await self._connected_client().flush(timeout)  # type: ignore[arg-type]  # it takes fractions
            except Exception as error:  # noqa: BLE001 - nats-py raises many kinds
                raise _as_nats_error(error) from None

        await self._loop.run(flush)

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now."""
        client = self._client
        return client is not None and client.is_connected

    @property
    def max_payload(self) -> int:
        """The most bytes of one message, as the server said; 0 while there was no connection yet."""
        return 0 if self._client is None else self._client.max_payload

    def is_refused(self, subject: str) -> bool:
        """Whether the server said that this user may not use the subject."""
        return bool(self.refused) and subject.lower() in self.refused

    async def connected(self, timeout: float) -> bool:  # noqa: ASYNC109 - a wait that gives up is no error here
        """Wait for the connection. Returns whether it is there."""
        with anyio.move_on_after(timeout):
            while not self.is_connected:
                await self._changed.wait()
        return self.is_connected

    def unreachable(self) -> NatsError:
        """The error that says why there is no connection."""
        why = f": {self.last_error}" if self.last_error else ""
        return NatsError(f"no connection to {', '.join(self.settings.servers)}{why}", cause=UNREACHABLE)

    async def aclose(self) -> None:
        """Write what waits to be written, and close the connection. Takes no longer than `client.CLOSE` for each."""
        if self.state != CLOSED:
            self._set(CLOSED)
            with contextlib.suppress(NatsError):
                await self._loop.run(self._close)
            await self._loop.aclose()

    # In the client's loop.

    def _connected_client(self) -> Client:
        client = self._client
        if client is None or not client.is_connected:
            raise self.unreachable()
        return client

    async def _subscribe(self, listening: Listening) -> None:
        client = self._client
        if client is None or client.is_closed:
            return  # `_keep` will
        received = listening.callback
        if not self._loop.is_here:
            received = functools.partial(self._loop.tell, received)
        listening.subscription = await client.listen(listening.subject, listening.queue, received, PENDING_MESSAGES)

    async def _unlisten(self, listening: Listening, *, drain: bool) -> None:
        async def unsubscribe() -> None:
            subscription, listening.subscription = listening.subscription, None
            if subscription is not None:
                with contextlib.suppress(Exception):  # the connection was lost: there is nothing to drain
                    await (subscription.drain() if drain else subscription.unsubscribe())  # type: ignore[no-untyped-call]

        self._listening.pop(listening, None)
        if self.state != CLOSED:
            await self._loop.run(unsubscribe)

    async def _keep(self) -> None:
        """Connect, and connect anew when the server has ended a connection for good, until cancelled."""
        import asyncio  # noqa: PLC0415 - slow to import

        from .client import Client  # noqa: PLC0415 - needs nats-py

        wait = random.uniform(*RECONNECT_WAIT)  # noqa: S311 - spreads load
        while self.state != CLOSED:
            ended = asyncio.Event()

            async def closed(ended: asyncio.Event = ended) -> None:
                ended.set()

            client = Client()
            try:
                await client.connect(
                    list(self.settings.servers),
                    name=f"picohook {self.inbox_prefix.partition('.')[2]}",
                    error_cb=self._failed,
                    disconnected_cb=self._lost,
                    reconnected_cb=self._restored,
                    closed_cb=closed,
                    inbox_prefix=self.inbox_prefix,
                    connect_timeout=CONNECT_TIMEOUT,  # type: ignore[arg-type]  # it takes fractions
                    reconnect_time_wait=wait,  # type: ignore[arg-type]
                    max_reconnect_attempts=-1,
                    ping_interval=PING_INTERVAL,  # type: ignore[arg-type]
                    max_outstanding_pings=MISSED_PINGS,
                    pending_size=2 * MAX_OUTBOUND,
                    skip_subject_validation=True,  # all subjects are made by `subjects`
                    **_identity(self.settings),
                )
                self._client = client
                for listening in tuple(self._listening):
                    await self._subscribe(listening)
                await self._restored()
                await ended.wait()
            except Exception as error:  # noqa: BLE001 - a file cannot be read, or the client has a fault: it is tried again
                self._note(error)
            finally:
                with anyio.CancelScope(shield=True):
                    await client.end()
            if self.state != CLOSED:
                self._loop.tell(self._set, DISCONNECTED)
                await asyncio.sleep(wait)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.end()

    async def _failed(self, error: Exception) -> None:
        refused = _REFUSED.search(str(error).lower())
        if refused is not None:
            self._loop.tell(self._refuse, refused[2], str(error))
        else:
            self._note(error)

    def _note(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.last_error:
            self.last_error = text
            self._loop.tell(functools.partial(self._log.warning, "NATS failed", why=text))

    async def _lost(self) -> None:
        self._loop.tell(self._set, DISCONNECTED)

    async def _restored(self) -> None:
        self.last_error = ""
        self._loop.tell(self._set, CONNECTED)

    # In the host's loop.

    def _set(self, state: str) -> None:
        if self.state in {state, CLOSED}:
            return
        self.state = state
        if state == CONNECTED:
            self.refused = frozenset()  # the server checks again
            self._log.info("connected to NATS")
        elif state == DISCONNECTED:
            self._log.warning("the connection to NATS was lost", why=self.last_error)
        self._tell()

    def _refuse(self, subject: str, why: str) -> None:
        self.refused |= {subject}
        self.last_error = why
        self._log.error("NATS refused a subject", subject=subject, why=why)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        for call in tuple(self.on_change):
            call()


def _require_nats() -> None:
    try:
        import nats.aio.client  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise PicohookError(f"NATS needs the package nats-py: {how_to_install('nats')}") from None


def _identity(settings: NatsSettings) -> dict[str, Any]:
    """The options of nats-py that say who this is, and whom it trusts. Raises `OSError` and `ssl.SSLError`."""
    given: dict[str, Any] = {"user_credentials": settings.creds, "nkeys_seed": settings.nkey, "tls": _tls(settings)}
    return {name: value for name, value in given.items() if value is not None}


def _tls(settings: NatsSettings) -> ssl.SSLContext | None:
    if settings.tls is None:
        return None
    import ssl  # noqa: PLC0415 - slow to import

    context = ssl.create_default_context(cafile=settings.tls.ca)
    if settings.tls.cert is not None:
        context.load_cert_chain(settings.tls.cert, settings.tls.key)
    return context


def _as_nats_error(error: Exception) -> NatsError:
    from nats import errors  # noqa: PLC0415 - an extra

    if isinstance(error, NatsError):
        return error
    cause = TOO_LARGE if isinstance(error, errors.MaxPayloadError) else UNREACHABLE
    return NatsError(str(error) or type(error).__name__, cause=cause)
