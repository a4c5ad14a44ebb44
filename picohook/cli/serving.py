"""`picohook serve`: the host as a sidecar, for runtimes in any language."""

import contextlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from ..config.hooks import PicoClaw
from ..errors import PicohookError
from . import output
from .listeners import Audit, Otel, Record, hide_key, listeners
from .source import AsPicoClaw, Named, Verbose, ended_by_signals, on_endings, read

if TYPE_CHECKING:
    from ..listeners.listener import Listener


def serve(
    config: Named = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            metavar="PATH",
            help="Serve at a Unix socket there, many clients; without it, one on standard input and output.",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="[HOST:]PORT|PATH",
            help="Answer GET /metrics there, too: on this machine alone, unless a host is named; or at a Unix socket.",
            show_default=False,
        ),
    ] = None,
    *,
    picoclaw: AsPicoClaw = None,
    audit: Audit = None,
    otel: Otel = False,
    record: Record = None,
    verbose: Verbose = False,
) -> None:
    """Serve the hooks to a program in any language.

    \b
    picohook serve --config picohook.toml --socket hooks.sock

    Speaks JSON-RPC 2.0, one message a line. Ends when standard input does, by the method `shutdown`, or by a signal: what was
    asked is answered first. Standard output carries nothing but answers. `picohook schema protocol` describes the methods.
    """  # noqa: D301 - click wants this character, and not its name
    del verbose
    read(config, picoclaw)  # which says so where there is none; the host reads it again, whenever it is told to
    streams = None if socket else _own_streams()
    with contextlib.redirect_stdout(sys.stderr), listeners((), audit=audit, otel=otel, record=record) as seen_by:
        # Standard output is stderr, because hooks in this process may print.
        faster = {"use_uvloop": find_spec("uvloop") is not None}
        anyio.run(_serve, config, picoclaw, socket, streams, metrics, seen_by, backend_options=faster)


def _own_streams() -> tuple[int, int]:
    """Standard input and output, for the protocol alone: whatever else reads or writes them gets nothing, or goes to stderr."""
    if None in (sys.__stdin__, sys.__stdout__, sys.__stderr__):  # by now their descriptors may be something else's
        raise PicohookError("standard input, output or error is closed: there is nobody to serve")
    streams = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if os.isatty(streams[0]):
        output.note("Serving here: one JSON-RPC request a line; the end of the input is the end.")
    return streams


async def _serve(  # noqa: PLR0917 - anyio.run calls it
    config: Path | None,
    picoclaw: PicoClaw | None,
    socket: Path | None,
    streams: tuple[int, int] | None,
    metrics: str | None,
    seen_by: "list[Listener]",
) -> None:
    from ..host import Host  # noqa: PLC0415 - most commands start nothing
    from ..observe.log import Log  # noqa: PLC0415
    from ..serve.server.connection import Connection  # noqa: PLC0415
    from ..serve.sidecar import Sidecar  # noqa: PLC0415

    if config is None:
        host = Host.discover(listeners=seen_by, picoclaw=picoclaw)
    else:
        host = Host.from_config(config, listeners=seen_by, picoclaw=picoclaw)
    hide_key()
    sidecar = Sidecar(host)
    with ended_by_signals():
        async with host:
            with contextlib.ExitStack() as opened:
                endpoints = []
                if metrics is not None:
                    from ..serve.metrics_endpoint import open_metrics_endpoint  # noqa: PLC0415

                    endpoints.append(await open_metrics_endpoint(host, metrics, Log()))
                    opened.callback(endpoints[0].listening.close)
                clients = await sidecar.at_streams(*streams) if streams else await sidecar.at_socket(cast(Path, socket))
                on_endings(lambda _: sidecar.end())
                if socket is not None:
                    output.note(f"Serving at {socket}")
                async with anyio.create_task_group() as tasks:
                    for endpoint in endpoints:
                        tasks.start_soon(endpoint.run)
                    await sidecar.serve(clients)
                    tasks.cancel_scope.cancel()
        if isinstance(clients, Connection) and clients.stream.failure:
            raise PicohookError(f"standard {clients.stream.failure}")
