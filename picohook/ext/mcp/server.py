"""Starts an MCP server, and serves one client through a `Proxy` until either of them ends."""

from __future__ import annotations

import os
import signal
import uuid
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ...errors import HookCrashedError, PicohookError
from ...model.spec import HookSpec
from ...observe.log import Log
from ...process.child import START_WAIT, Child
from ...process.plan import plan
from ...process.spawn import ProcessServices
from ...sessions.session import Session
from ...transport.event_loop import current_reactor
from .proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...host import Host
    from ...observe.log import Logger
    from .approval import ClientApprover
    from .tool_list import Pins

GRACE = 1.5
"""Seconds from the end of the server's input to TERM, and from TERM to KILL. Clients commonly wait for two and two."""


async def serve_mcp(
    host: Host,
    name: str,
    command: Sequence[str],
    client: tuple[int, int],
    *,
    pins: Pins | None = None,
    approver: ClientApprover | None = None,
    refused: Collection[str] = (),
    logger: Logger | None = None,
) -> int:
    """Start an MCP server by its command, and pass the lines between it and the client's descriptors, as a `Proxy` does.

    Returns the exit code: 0 if the client ended first, else the server's own, or 128 and the number of the signal that ended
    it. Raises `PicohookError` if the server cannot be started, a line is too long, or the client's descriptors fail.
    """
    log = Log(logger)
    reactor = current_reactor()
    spec = HookSpec(name=name, command=tuple(command), inherit_env=True)
    try:
        planned = await anyio.to_thread.run_sync(plan, spec, os.environ)
        child = await Child.start(
            ProcessServices(reactor, log, host.timeouts, host.spawner),
            planned,
            deadline=reactor.now() + START_WAIT,
            name=name,
            on_exit=lambda: ended(),  # noqa: PLW0108 - it is made below, from what this returns
            stderr=2,
        )
    except TimeoutError:
        raise PicohookError(f"the MCP server {name} was not started in time") from None
    except HookCrashedError as error:
        raise PicohookError(f"the MCP server {name} {error}") from None
    session = Session(host, f"mcp-{uuid.uuid4().hex}", hooks=() if approver is None else (approver,))
    proxy = Proxy(
        session, name, client, (child.stdout, child.stdin), log=log, pins=pins, approver=approver, refused=refused
    )

    def ended() -> None:
        proxy.server.stream.drain()
        proxy.server.end()

    async with session:
        await proxy.run(partial(child.stop, [(None, GRACE), (signal.SIGTERM, GRACE)]))
    if why := proxy.client.stream.failure:
        raise PicohookError(why)
    code = 0 if proxy.client.ended else child.exit_code or 0
    return code if code >= 0 else 128 - code
