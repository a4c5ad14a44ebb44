"""`picohook mcp`: hooks between an MCP client and an MCP server."""

import contextlib
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import anyio
import typer

from ...config.layers import Layers
from ...config.model_endpoints import model_clients
from ...host import Host
from ...listeners.listener import Listener
from ...serve.mcp.server import serve_mcp
from ..command import App, Verbose
from ..configuration import Named, configured
from ..host import ended_by_signals, own_streams
from ..listeners import Audit, Otel, Record, hide_key, listeners

app = App()


@app.command(context_settings={"allow_interspersed_args": False})
def mcp(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The command that starts the server.", show_default=False),
    ],
    *,
    config: Named = None,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The server's name: to hooks, its tools are mcp__NAME__TOOL. Default: its program's name.",
            show_default=False,
        ),
    ] = "",
    audit: Audit = None,
    otel: Otel = False,
    record: Record = None,
    verbose: Verbose = False,
) -> None:
    """Put hooks between an MCP client and an MCP server.

    \b
    picohook mcp --name files -- npx -y @modelcontextprotocol/server-filesystem .

    Starts the server, and passes on what client and server say over standard input and output. Hooks are asked about each tool
    call, and about its result. Ends with the server or the client, whichever ends first. Exits as the server does.
    """  # noqa: D301 - click reads a backspace character, not an escape
    del verbose
    name = name or re.sub(r"[^\w.-]", "-", Path(command[0]).stem)
    if not re.fullmatch(r"[\w.-]+", name):
        raise typer.BadParameter("must have letters, digits, `_`, `-` and `.` only", param_hint="--name")
    layers = configured(config)
    streams = own_streams()
    with (
        contextlib.redirect_stdout(sys.stderr),  # hooks in this process may print
        listeners(layers.configs, audit=audit, otel=otel, record=record) as made,
    ):
        hide_key()
        faster = {"use_uvloop": find_spec("uvloop") is not None}
        code = anyio.run(_serve, layers, made, name, command, streams, backend_options=faster)
    raise typer.Exit(code)


async def _serve(
    config: Layers, made: list[Listener], name: str, command: Sequence[str], streams: tuple[int, int]
) -> int:
    model_of = model_clients(config)
    with ended_by_signals():
        async with Host(
            config.hooks, timeouts=config.timeouts, verify=config.verify, model_of=model_of, listeners=made
        ) as host:
            code = await serve_mcp(host, name, command, streams)
    return code
