"""`picohook mcp`: hooks between an MCP client and an MCP server."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ...config import mcp_pins
from ...serve.mcp.approval import ClientApprover
from ...serve.mcp.messages import ASKS
from ...serve.mcp.server import serve_mcp
from ...serve.mcp.tool_list import Changed, Pins
from .. import output
from ..command import App, Verbose
from ..configuration import Named, configured
from ..host import own_streams, with_hooks
from ..listeners import Audit, Otel, Record

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
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="TOOLS",
            help="Ask the user, through the client, before each call of these tools, such as 'mcp__files__write*'.",
            show_default=False,
        ),
    ] = None,
    refuse: Annotated[
        list[str] | None,
        typer.Option(
            "--refuse",
            metavar="|".join(ASKS),
            help="Do not let the server ask the client for this. Can be given more than once.",
            show_default=False,
        ),
    ] = None,
    changed: Annotated[
        Changed,
        typer.Option(
            "--changed",
            metavar="warn|deny",
            help="What to do when a tool is not described as when it was first seen: warn, or hide it and deny its calls.",
        ),
    ] = "warn",
    unpin: Annotated[
        bool, typer.Option("--unpin", help="Forget how the server described its tools, and start nothing.")
    ] = False,
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
    if unpin:
        known = mcp_pins.remove(command)
        output.line("the tools of this command are pinned anew when they are listed" if known else "nothing was pinned")
        return
    pins = Pins(mcp_pins.read(command), partial(mcp_pins.write, command), changed)
    try:
        approver = None if approve is None else ClientApprover(approve)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--approve") from None
    if unknown := set(refuse or ()) - ASKS.keys():
        raise typer.BadParameter(f"must be {', '.join(ASKS)}, not {', '.join(unknown)}", param_hint="--refuse")
    refused = [ASKS[one] for one in refuse or ()]
    layers = configured(config)
    streams = own_streams()
    code = with_hooks(
        layers,
        lambda host: serve_mcp(host, name, command, streams, pins=pins, approver=approver, refused=refused),
        audit=audit,
        otel=otel,
        record=record,
    )
    raise typer.Exit(code)
