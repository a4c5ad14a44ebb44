"""The NATS servers of a configuration: whether they let anybody do what no picohook host or worker has to."""

import asyncio
import contextlib
import json
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio.to_thread
import typer

from ...cli.doctor.examine import examinations
from ...cli.doctor.findings import Finding, Level
from ...projects import layers
from ...projects.layers import Layers
from . import subjects
from .connection import flush_all, identity, tls_of
from .settings import NatsSettings, connection_in

if TYPE_CHECKING:
    from nats.aio.client import Client

_WAIT = 2.0
"""Seconds for a connection, and for the server's answer."""
_REFUSALS = 0.5
"""Seconds for the server's refusals, which may come after its answer to a ping."""
_HANGS = 4.0
"""Seconds for which a connection answers no ping. The server has to end it meanwhile."""
_PAGE = "docs/how-to/operate-a-fleet.md"


async def examine(found: Layers) -> AsyncIterator[Finding]:
    """Yields the findings about the servers in `[nats]`."""
    settings = connection_in(found)
    if settings is None:
        return
    for server in settings.servers:
        yield await _encrypted(server)
        yield await _anonymous(server, settings)
    server = settings.servers[0]
    permissions = partial(_permissions, server, settings, _served(found))
    async for finding in _with_key(server, permissions, partial(_hanging, server, settings)):
        yield finding


def try_routes(context: typer.Context, routes: list[str]) -> None:
    """Let `picohook doctor` examine these routes of the servers' cluster."""
    examinations(context).append(partial(examine_routes, routes))


def try_answers(context: typer.Context, host: str) -> None:
    """Let `picohook doctor` examine where a worker may answer the host with this configuration."""
    examinations(context).append(partial(examine_answers, host))


async def examine_routes(routes: list[str], found: Layers) -> AsyncIterator[Finding]:
    """Yields a finding about each route of the servers' cluster."""
    for route in routes if connection_in(found) else ():
        yield await _route(route)


async def examine_answers(host: str, found: Layers) -> AsyncIterator[Finding]:
    """Yields a finding about where this worker may answer a host beside its inbox. `host` is the host's configuration."""
    worker, asking, served = connection_in(found), connection_in(layers.named(host)), _served(found)
    if worker is not None and asking is not None and served:
        server = worker.servers[0]
        async for finding in _with_key(server, partial(_answers, server, worker, asking, served[0])):
            yield finding


def _served(found: Layers) -> list[str]:
    """The hooks that a worker serves; none if this is no worker's configuration."""
    if any(spec.kind == "nats" for spec in found.hooks):
        return []
    return sorted(spec.name for spec in found.hooks if spec.asked_at)


async def _with_key(server: str, *tries: Callable[[], Awaitable[Finding]]) -> AsyncIterator[Finding]:
    """Yields the findings of tries that connect with the configuration's key, until a connection fails."""
    for one in tries:
        try:
            finding = await one()
        except Exception as error:
            why = f"no connection: {str(error) or type(error).__name__}"
            yield Finding(Level.ERROR, server, "key", why, "read why, and the server's log")
            return
        yield finding


@contextlib.asynccontextmanager
async def _connected(server: str, options: dict[str, Any], refused: list[str]) -> AsyncIterator["Client"]:
    """A client. What the server refuses is added to `refused`."""
    from nats.aio.client import Client  # an extra

    async def failed(error: Exception) -> None:
        refused.append(str(error))

    client = Client()
    try:
        async with asyncio.timeout(2 * _WAIT):
            await client.connect(server, allow_reconnect=False, connect_timeout=2, error_cb=failed, **options)
        yield client
    finally:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_WAIT):
                await client.close()


def _found(server: str, about: str, wrong: str, right: str, hint: str, *, level: Level = Level.ERROR) -> Finding:
    """The finding: what is wrong, or what is right if nothing is."""
    return (
        Finding(level, server, about, wrong, f"{hint}: {_PAGE}") if wrong else Finding(Level.OK, server, about, right)
    )


async def _encrypted(server: str) -> Finding:
    parts = urlsplit(server)
    try:
        info = await _greeting(parts.hostname or "", parts.port or 4222)
    except (OSError, TimeoutError, ValueError) as error:
        why = f"it cannot be reached: {str(error) or 'it says nothing'}"
        return Finding(Level.ERROR, server, "encryption", why, "start it, or correct `servers`")
    encrypts = info.get("tls_required") or info.get("tls_available")
    wrong = "" if encrypts else "whoever sees the network reads questions and answers"
    return _found(server, "encryption", wrong, "it demands TLS", "give it a certificate, `tls` in its configuration")


async def _anonymous(server: str, settings: NatsSettings) -> Finding:
    context, wrong = tls_of(settings), ""
    with contextlib.suppress(Exception):  # nats-py raises many kinds
        async with _connected(server, {} if context is None else {"tls": context}, []):
            wrong = "anybody may connect, without a key"
    hint = "give each host and each worker a key, `accounts` in its configuration"
    return _found(server, "anonymous", wrong, "it refuses a client without a key", hint)


async def _permissions(server: str, settings: NatsSettings, serves: list[str]) -> Finding:
    """Try the acts that this key must not allow. None of them has an effect, even where the server allows it."""
    tenant, other = settings.tenant, f"doctor-{secrets.token_hex(4)}"
    publish = ["doctor.anything", "$JS.API.INFO", "$SRV.PING", f"$KV.{other}.x"]
    publish += [subjects.rpc(tenant, other, "x", other), subjects.cancel(tenant, other, other)]
    listen = [(">", ""), ("_INBOX.>", ""), (f"{subjects.inbox(other)}.>", "")]
    if serves:
        listen += [(subjects.rpc(tenant, name, "*", "*", "*"), "") for name in serves]
    else:
        publish += [f"{subjects.inbox(other)}.x"]
        listen += [(subjects.rpc(tenant, name, "*", "*", "*"), name) for name in ("policy", "*")]
    refused: list[str] = []
    async with _connected(server, identity(settings), refused) as client:
        for subject in publish:
            await client.publish(subject, b"")
        for subject, queue in listen:
            await client.subscribe(subject, queue=queue)
        await flush_all(client, _WAIT)
        await asyncio.sleep(_REFUSALS)
    tried = {f'publish to "{subject}"': f"publish {subject}" for subject in publish}
    tried |= {f'subscription to "{subject}"': f"listen to {subject}" for subject, _ in listen}
    refusals = "\n".join(refused).lower()
    allowed = [what.replace(other, "*") for said, what in tried.items() if said.lower() not in refusals]
    whose = "a worker" if serves else "a host"
    wrong = f"the key may {', '.join(allowed)}" if allowed else ""
    right = f"the key may do nothing that {whose} does not have to"
    return _found(server, "permissions", wrong, right, f"give it the permissions of {whose}")


async def _answers(server: str, worker: NatsSettings, host: NatsSettings, hook: str) -> Finding:
    """Try whether the worker may answer at a subject that only a question names."""
    refused: list[str] = []
    name, elsewhere = host.host, f"doctor.{secrets.token_hex(8)}"
    subject = subjects.cancel(worker.tenant, hook, name)
    async with (
        _connected(server, identity(worker), refused) as client,
        _connected(server, identity(host), refused) as asking,
    ):
        heard = await client.subscribe(subjects.cancel(worker.tenant, hook, "*"))
        await flush_all(client, _WAIT)
        await asking.publish(subject, b"{}", elsewhere)
        async with asyncio.timeout(_WAIT):
            while (await heard.next_msg(_WAIT)).reply != elsewhere:
                pass
        await client.publish(elsewhere, b"")
        await flush_all(client, _WAIT)
    wrong = "the worker may answer at every subject that a question names, such as another host's or a stream's"
    if any(elsewhere in why for why in refused):
        wrong = ""
    hint = "take `allow_responses` out of the worker's permissions"
    return _found(server, "answers", wrong, "the worker may answer hosts alone", hint)


async def _hanging(server: str, settings: NatsSettings) -> Finding:
    silent = f"a connection that answers nothing for {_HANGS:g} s"
    hangs = await anyio.to_thread.run_sync(partial(_hang, server, settings))
    wrong = f"it keeps {silent}: workers that hang get questions" if hangs else ""
    hint = "set `ping_interval` and `ping_max` in its configuration"
    return _found(server, "hanging", wrong, f"it ends {silent}", hint, level=Level.WARNING)


def _hang(server: str, settings: NatsSettings) -> bool:
    """Connect, do nothing for a while. Returns whether the connection is still there."""

    async def hang() -> bool:
        async with _connected(server, identity(settings), []) as client:
            time.sleep(_HANGS)  # noqa: ASYNC251 - it stops this event loop, which is the point
            with contextlib.suppress(Exception):
                await flush_all(client, _WAIT)
                return True
            return False

    return asyncio.run(hang())


async def _route(route: str) -> Finding:
    """Try whether a server without a certificate gets as far as to send its password."""
    host, _, port = route.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    message = "a server without a certificate can join the cluster"
    try:
        info = await _greeting(host, int(port))
    except TimeoutError:  # it waits for TLS
        try:
            info = await _greeting(host, int(port), context)
        except (OSError, TimeoutError, ValueError):
            return Finding(Level.OK, route, "cluster", "it demands a certificate from a server")
    except (OSError, ValueError) as error:
        return Finding(Level.NOTE, route, "cluster", f"it was not tried: {error}", "name the address of its routes")
    if not info.get("auth_required"):
        message += ", and needs no password"
    return _found(route, "cluster", message, "", "set `authorization` and `tls` with `verify` in `cluster`")


async def _greeting(host: str, port: int, context: ssl.SSLContext | None = None) -> dict[str, object]:
    """The first line of a server. Raises `OSError`, `TimeoutError` or `ValueError`."""
    async with asyncio.timeout(_WAIT):
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        try:
            line = await reader.readline()
        finally:
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()
    info = json.loads(line.removeprefix(b"INFO "))
    if not isinstance(info, dict):
        raise ValueError("it is no server of NATS")
    return info
