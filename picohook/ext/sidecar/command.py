"""`picohook serve`: a host as a sidecar, for programs in any language."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, cast

import anyio
import typer

from ...cli import output
from ...cli.command import GIVEN, KEYWORDS, App, Verbose, reads_files, starts_hooks
from ...cli.configuration import Named, read
from ...cli.host import (
    ended_by_signals,
    garbage_collected_rarely,
    has_uvloop,
    host_of,
    on_endings,
    own_streams,
    reload_at_hangup,
)
from ...errors import PicohookError
from ...host import Host
from ...rpc.connection import Connection
from .sidecar import Sidecar

app = App()


@app.command()
@reads_files
@starts_hooks
def serve(
    config: Named = None,
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            metavar="PATH",
            help="Serve many clients at this Unix socket. Default: one client, on standard input and output.",
        ),
    ] = None,
    *,
    _verbose: Verbose = False,
) -> None:
    """Serve the hooks to a program in any language.

    \b
    picohook serve --config picohook.toml --socket hooks.sock

    Speaks JSON-RPC 2.0, one message a line. Ends at the end of standard input, at the method `shutdown` or at a signal, after
    answering all open requests. SIGHUP reloads the configuration. Only answers go to standard output. `picohook schema
    protocol` describes the methods.
    """  # noqa: D301 - click reads a backspace character, not an escape
    read(config)  # raises errors before anything starts; the host reads the files again by itself
    streams = None if socket else own_streams()
    if streams is not None and os.isatty(streams[0]):
        output.note("Serving this terminal: type one JSON-RPC request a line, and end the input (Ctrl-D) to stop.")
    with contextlib.redirect_stdout(sys.stderr):  # hooks in this process may print
        host = host_of(config, **GIVEN, **KEYWORDS)
        anyio.run(_serve, host, socket, streams, backend_options={"use_uvloop": has_uvloop()})


async def _serve(host: Host, socket: Path | None, streams: tuple[int, int] | None) -> None:
    sidecar = Sidecar(host)
    with ended_by_signals():
        async with host, contextlib.AsyncExitStack() as opened:
            clients = await sidecar.at_streams(*streams) if streams else await sidecar.at_socket(cast(Path, socket))
            on_endings(lambda _: sidecar.end())
            reload_at_hangup(host)
            opened.enter_context(garbage_collected_rarely())
            if socket is not None:
                output.note(f"Serving at {socket}")
            await sidecar.serve(clients)
        if isinstance(clients, Connection) and clients.stream.failure:
            raise PicohookError(f"standard {clients.stream.failure}")
