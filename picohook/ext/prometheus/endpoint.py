"""The HTTP endpoint for Prometheus: `GET /metrics`, by its own client library."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from ...engine.part import Part
from ...errors import PicohookError
from .metrics import registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from wsgiref.simple_server import WSGIServer

    from ...engine.engine import Engine
    from ...host import Host

NOUN = "the metrics endpoint"


@asynccontextmanager
async def metrics_endpoint(host: Engine, where: str) -> AsyncIterator[WSGIServer]:
    """Answer at [HOST:]PORT, in threads, while the block runs. Without HOST, only this machine's loopback address listens.

    Raises `PicohookError` if it cannot listen there. The block has to run on the host's event loop, which a scrape asks.
    """
    from prometheus_client import start_wsgi_server  # `registry` says what to install without it

    address, port = _address(where)
    token = anyio.lowlevel.current_token()

    def status() -> Mapping[str, Any]:
        return anyio.from_thread.run_sync(lambda: host.status().wire(), token=token)

    try:
        server, _ = await anyio.to_thread.run_sync(start_wsgi_server, port, address, registry(status))
    except (OSError, UnicodeError) as error:
        raise PicohookError(f"{NOUN} cannot listen at {where}: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(server.shutdown)
        server.server_close()


def _address(where: str) -> tuple[str, int]:
    """Returns host and port. Raises `PicohookError`."""
    host, _, port = where.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise PicohookError(f"{where} is not an address for {NOUN}: that is [HOST:]PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


class PrometheusPart(Part):
    """Answers `GET /metrics` while the host runs."""

    def __init__(self, where: str | int) -> None:
        self._where = str(where)
        self._opened = AsyncExitStack()

    async def open(self, host: Host) -> None:
        await self._opened.enter_async_context(metrics_endpoint(host, self._where))

    async def aclose(self) -> None:
        await self._opened.aclose()
