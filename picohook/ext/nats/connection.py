"""One connection to NATS, which all hooks of a host share. It works on asyncio and on trio."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import re
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import PicohookError
from ...observe.rate_limit import RateLimit
from ...transport.on_asyncio import AsyncioReactor
from ...wire.extras import needs
from .client_loop import HostLoop, ThreadLoop
from .errors import NatsError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from ...hooks.base import HostServices
    from ...observe.log import Log
    from ...transport.reactor import Reactor
    from .settings import NatsSettings

CONNECTING, CONNECTED, DISCONNECTED, CLOSED = "connecting", "connected", "disconnected", "closed"
UNREACHABLE, FORBIDDEN, TOO_LARGE = "unreachable", "forbidden", "too_large"

RECONNECT_WAIT = (0.2, 0.6)
"""Seconds to wait after all servers failed. Each connection takes a random time between these, to spread the load."""
CONNECT_TIMEOUT = 2.0
PULSE = 1.0
"""Seconds between two pings of the server, and for the answer to one."""
MISSED = 2
"""The number of unanswered pings in a row after which the connection counts as lost."""
CLOSE = 1.0
"""Seconds for the last messages, and for the end of a connection. A server that is stopped takes neither."""
MAX_OUTBOUND = 16 << 20
"""The most bytes that may wait to be written to the server."""
PENDING_MESSAGES = 65_536
"""The most messages of one subscription that may wait in this process."""
LOGGED, WINDOW = 20, 10.0
"""The number of lines that a window of seconds may log, of those that others can cause."""

_REFUSED = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


@dataclass(eq=False, slots=True)
class Listening:
    """A subscription. It is made anew at each server."""

    subject: str
    callback: Callable[[Msg], None]
    queue: str
    subscription: Subscription | None = None


class NatsConnection:
    """A connection that is made anew when it is lost, at any of the servers. What was not sent before is never sent later.

    `on_change` has functions that are called, in the host's loop, whenever `state` or `refused` may have changed.
    """

    def __init__(self, settings: NatsSettings, reactor: Reactor, log: Log) -> None:
        """Begins to connect at once, in the background. Raises `PicohookError` if nats-py is not installed."""
        try:
            import nats.aio.client  # noqa: F401 - an extra
        except ImportError:
            raise PicohookError(needs("NATS", "the package nats-py", "nats")) from None
        self.settings = settings
        self.uses = 0
        """The number of its users, which `Connections` counts."""
        self.state = CONNECTING
        self.last_error = ""
        """The reason why there is no connection, or the subject that the server last refused."""
        self.refused: frozenset[str] = frozenset()
        """The subjects that this user may not publish or listen to, as far as the server said; in lower case. No answers."""
        self.on_change: set[Callable[[], None]] = set()
        self.host = settings.host or socket.gethostname()
        """This host's name, at whose inbox it gets answers."""
        self._log = log.bind(servers=", ".join(settings.servers))
        self._logged = RateLimit(LOGGED, WINDOW)
        self._client: Client | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._listening: dict[Listening, None] = {}
        self._changed = anyio.Event()
        self._loop: HostLoop | ThreadLoop = HostLoop() if isinstance(reactor, AsyncioReactor) else ThreadLoop(reactor)
        self._loop.start(self._keep)

    # The interface.

    async def publish(self, subject: str, body: bytes, reply: str = "") -> None:
        """Send a message. It is written soon after. Raises `NatsError` if it cannot be sent."""
        client = self._client
        if client is None or not client.is_connected:
            raise self.unreachable()
        size, waiting = len(body), client.pending_data_size
        if size > client.max_payload:
            raise NatsError(
                f"a message of {size} bytes is over the server's limit of {client.max_payload}", cause=TOO_LARGE
            )
        if waiting + size > MAX_OUTBOUND:
            raise NatsError(f"{waiting} bytes wait to be sent to the server", cause=UNREACHABLE)
        if not self._loop.is_here:
            self._loop.soon(client.publish, subject, body, reply)
            return
        try:
            await client.publish(subject, body, reply)
        except Exception as error:  # nats-py raises many kinds
            raise NatsError(str(error) or type(error).__name__, cause=UNREACHABLE) from None

    def post(self, subject: str, body: bytes) -> None:
        """Send a message if that is possible now. Callbacks may call it."""
        if (client := self._client) is not None and client.is_connected:
            self._loop.soon(client.publish, subject, body)

    async def listen(self, subject: str, callback: Callable[[Msg], None], *, queue: str = "") -> Listening:
        """Call back with each message to this subject, in the host's loop. Works while there is no connection, too."""
        listening = Listening(subject, callback, queue)
        self._listening[listening] = None
        await self._loop.run(functools.partial(self._subscribe, listening))
        return listening

    async def unlisten(self, listening: Listening, *, drain: bool) -> None:
        """Take no more messages. The server hands those that it has not sent yet to other members of the queue group.

        With `drain`, returns when `callback` has been called with the messages that were sent already.
        """

        async def unsubscribe() -> None:
            subscription, listening.subscription = listening.subscription, None
            if subscription is not None:
                with contextlib.suppress(Exception):  # the connection was lost: there is nothing to drain
                    await (subscription.drain() if drain else subscription.unsubscribe())  # type: ignore[no-untyped-call]

        self._listening.pop(listening, None)
        if self.state != CLOSED:
            await self._loop.run(unsubscribe)

    async def flush(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - of the server, and not of the caller
        """Wait until the server has taken all that was sent, subscriptions too. Raises `NatsError`."""

        async def flush() -> None:
            client = self._client
            if client is None or not client.is_connected:
                raise self.unreachable()
            try:
                await flush_all(client, timeout)
            except Exception as error:  # nats-py raises many kinds
                raise NatsError(str(error) or type(error).__name__, cause=UNREACHABLE) from None

        await self._loop.run(flush)

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now."""
        client = self._client
        return client is not None and client.is_connected

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
        """Write what waits to be written, and close the connection. Takes no longer than `CLOSE` for each."""
        if self.state != CLOSED:
            self._set(CLOSED)
            with contextlib.suppress(NatsError):
                await self._loop.run(self._close)
            await self._loop.aclose()

    # In the client's loop.

    async def _subscribe(self, listening: Listening) -> None:
        client = self._client
        if client is None or client.is_closed:
            return  # `_use` will
        received, loop = listening.callback, self._loop

        async def at_once(message: Msg) -> None:
            received(message)

        async def told(message: Msg) -> None:
            loop.tell(received, message)

        listening.subscription = await client.subscribe(
            listening.subject,
            queue=listening.queue,
            cb=at_once if loop.is_here else told,
            pending_msgs_limit=PENDING_MESSAGES,
        )

    async def _keep(self) -> None:
        """Connect to one of the servers, and to another one when the connection is lost, until cancelled."""
        wait = random.uniform(*RECONNECT_WAIT)  # noqa: S311 - spreads load
        servers = list(self.settings.servers)
        while self.state != CLOSED:
            random.shuffle(servers)
            for server in servers:
                if await self._use(server):
                    break
            else:
                await asyncio.sleep(wait)

    async def _use(self, server: str) -> bool:
        """Use a connection to this server as long as it lasts. Returns whether there was one."""
        from nats.aio.client import Client  # an extra

        ended, client = asyncio.Event(), Client()

        async def closed() -> None:
            ended.set()

        try:
            async with asyncio.timeout(2 * CONNECT_TIMEOUT):
                await client.connect(
                    server,
                    name=f"picohook {self.host}",
                    error_cb=self._failed,
                    closed_cb=closed,
                    connect_timeout=CONNECT_TIMEOUT,  # type: ignore[arg-type]  # it takes fractions
                    allow_reconnect=False,
                    ping_interval=1 << 20,  # `_lasts` does that
                    pending_size=2 * MAX_OUTBOUND,
                    skip_subject_validation=True,  # all subjects are made by `subjects`
                    **identity(self.settings),
                )
                self._client = client
                for listening in tuple(self._listening):
                    await self._subscribe(listening)
                await flush_all(client, CONNECT_TIMEOUT)
            self.last_error = ""
            self._loop.tell(self._set, CONNECTED)
            await self._lasts(client, ended)
        except Exception as error:  # no connection, a file that cannot be read, a fault of the client
            self._note(error)
            return False
        finally:
            self._client = None
            self._loop.tell(self._set, DISCONNECTED)
            closing = asyncio.get_running_loop().create_task(_end(client))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        return True

    async def _lasts(self, client: Client, ended: asyncio.Event) -> None:
        """Returns when the connection has ended, or the server has stopped to answer pings."""
        missed = 0
        while missed < MISSED:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if missed else PULSE):
                    await ended.wait()
                return
            try:
                await client.flush(PULSE)  # type: ignore[arg-type]  # it takes fractions
                missed = 0
            except Exception as error:  # nats-py raises many kinds
                if client.is_closed:
                    return
                missed += 1
                self._note(error)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _end(client)
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSE)

    async def _failed(self, error: Exception) -> None:
        refused = _REFUSED.search(str(error).lower())
        if refused is not None:
            self._loop.tell(self._refuse, *refused.groups(), str(error))
        else:
            self._note(error)

    def _note(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.last_error:
            self.last_error = text
            self._loop.tell(functools.partial(self._log.warning, "NATS failed", why=text))

    # In the host's loop.

    def _set(self, state: str) -> None:
        if self.state in {state, CLOSED} or (state == DISCONNECTED and self.state == CONNECTING):
            return
        self.state = state
        if state == CONNECTED:
            self._log.info("connected to NATS")
        elif state == DISCONNECTED:
            self.refused = frozenset()  # the next server checks again
            self._log.warning("the connection to NATS was lost", why=self.last_error)
        self._tell()

    def _refuse(self, verb: str, subject: str, why: str) -> None:
        self.last_error = why
        if self._logged.take(time.monotonic()):
            self._log.error("NATS refused a subject", subject=subject, why=why)
        if verb == "subscription" or not subject.startswith("_inbox."):  # each answer has a subject of its own
            self.refused |= {subject}
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        for call in tuple(self.on_change):
            call()


class Connections:
    """The connections of one host, one for each set of settings.

    A connection is made when it is first used, and closed when its last use ends, or with the host.
    """

    def __init__(self, host: HostServices) -> None:
        self._reactor = host.reactor
        self._log = host.log
        self._open: dict[NatsSettings, NatsConnection] = {}

    def of(self, settings: NatsSettings) -> NatsConnection:
        """The connection with these settings, which begins to connect now or is there already. `leave` ends the use.

        Raises `PicohookError` if nats-py is not installed.
        """
        if settings not in self._open:
            self._open[settings] = NatsConnection(settings, self._reactor, self._log)
        connection = self._open[settings]
        connection.uses += 1
        return connection

    async def leave(self, connection: NatsConnection) -> None:
        """End one use of a connection."""
        connection.uses -= 1
        if not connection.uses and self._open.pop(connection.settings, None) is not None:
            await connection.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        while self._open:
            await self._open.popitem()[1].aclose()


async def flush_all(client: Client, timeout: float) -> None:  # noqa: ASYNC109 - of the server, and not of the caller
    """Wait until the server has taken all that was sent.

    nats-py writes the ping of a flush before what waits to be written, so only the second ping comes after all of it.
    """
    for _ in range(2):
        await client.flush(timeout)  # type: ignore[arg-type]  # it takes fractions


async def _end(client: Client) -> None:
    """Write all waiting messages, and close the connection, as far as the server lets it in time."""
    with contextlib.suppress(Exception):  # it closes
        async with asyncio.timeout(CLOSE):
            if client.is_connected:
                await flush_all(client, CLOSE)
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE):
            await client.close()


def _without_noise(record: logging.LogRecord) -> bool:
    """Leaves out what asyncio says at the end of each connection that nats-py has encrypted."""
    return not record.getMessage().startswith("returning true from eof_received() has no effect when using ssl")


def identity(settings: NatsSettings) -> dict[str, Any]:
    """The options of nats-py that say who this is, and whom it trusts. Raises `OSError` and `ssl.SSLError`."""
    given: dict[str, Any] = {"user_credentials": settings.creds, "nkeys_seed": settings.nkey, "tls": tls_of(settings)}
    return {name: value for name, value in given.items() if value is not None}


def tls_of(settings: NatsSettings) -> ssl.SSLContext | None:
    """The certificates for connections; None if they are not named. Raises `OSError` and `ssl.SSLError`."""
    if settings.tls is None:
        return None
    import ssl  # slow to import

    logging.getLogger("asyncio").addFilter(_without_noise)
    context = ssl.create_default_context(cafile=settings.tls.ca)
    if settings.tls.cert is not None:
        context.load_cert_chain(settings.tls.cert, settings.tls.key)
    return context
