"""`picohook mcp`: hooks between an MCP client and an MCP server."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ... import extensions
from ...cli import output
from ...cli.command import KEYWORDS, App, Verbose, require_file, starts_hooks
from ...cli.configuration import Named, configured
from ...cli.host import own_streams, with_hooks
from . import pins as mcp_pins, remote
from .approval import ClientApprover
from .clients import put_before, take_away
from .messages import ASKS
from .server import serve_mcp
from .tool_list import Changed, Pins

app = App()


@app.command(context_settings={"allow_interspersed_args": False})
@starts_hooks
def mcp(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="The command that starts the server."),
    ] = None,
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="The remote server, over streamable HTTP, in place of a command. Needs the extra mcp.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="A header for the remote server, such as 'Authorization: Bearer ${TOKEN}'. Its secret comes from the "
            "environment. Can be given more than once.",
        ),
    ] = None,
    config: Named = None,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The server's name: to hooks, its tools are mcp__NAME__TOOL. Default: its program's name, or its host's.",
        ),
    ] = "",
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="TOOLS",
            help="Ask the user, through the client, before each call of these tools, such as 'mcp__files__write*'.",
        ),
    ] = None,
    refuse: Annotated[
        list[str] | None,
        typer.Option(
            "--refuse",
            metavar="|".join(ASKS),
            help="A request that the server may not send to the client. Can be given more than once.",
        ),
    ] = None,
    changed: Annotated[
        Changed,
        typer.Option(
            "--changed",
            metavar="warn|deny",
            help="What to do when the description of a tool has changed: warn, or hide it and deny its calls.",
        ),
    ] = "warn",
    unpin: Annotated[
        bool, typer.Option("--unpin", help="Forget the descriptions of the server's tools. Starts nothing.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option(
            "--init",
            metavar="CLIENT.json",
            help="Put picohook mcp, with these options, before every server in this configuration of a client.",
        ),
    ] = None,
    undo: Annotated[
        Path | None,
        typer.Option(
            "--undo", metavar="CLIENT.json", help="Remove picohook mcp from every server in this configuration."
        ),
    ] = None,
    _verbose: Verbose = False,
) -> None:
    """Put hooks between an MCP client and an MCP server.

    \b
    picohook mcp --name files -- npx -y @modelcontextprotocol/server-filesystem .
    picohook mcp --url https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

    Starts the server, and passes messages between client and server. Hooks are asked about each tool
    call, and about its result. Ends when the server or the client ends. Exits with the server's exit code.
    """  # noqa: D301 - click reads a backspace character, not an escape
    if init is not None or undo is not None:
        if command or url or (init is not None and undo is not None):
            raise typer.BadParameter("give one of --init, --undo, --url and a command")
        _edit_client(init, undo, _options(config=config, approve=approve, refuse=refuse, changed=changed))
        return
    if bool(command) is bool(url):
        raise typer.BadParameter("give the command that starts the server, or its URL: picohook mcp -- COMMAND")
    pinned, command, own_name = _server(command or [], url, header or [])
    name = name or re.sub(r"[^\w.-]", "-", own_name)
    if not re.fullmatch(r"[\w.-]+", name):
        raise typer.BadParameter("must have letters, digits, `_`, `-` and `.` only", param_hint="--name")
    if unpin:
        known = mcp_pins.remove(pinned)
        output.line("the tools of this server are pinned anew when they are listed" if known else "nothing was pinned")
        return
    pins = Pins(mcp_pins.read(pinned), partial(mcp_pins.write, pinned), changed)
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
        faster=True,
        **KEYWORDS,
    )
    raise typer.Exit(code)


def _server(command: list[str], url: str | None, headers: list[str]) -> tuple[list[str], list[str], str]:
    """Returns the key of the server's pins, the command that starts the server, and a name for it."""
    if url is None:
        if headers:
            raise typer.BadParameter("is for a server with a --url", param_hint="--header")
        return command, command, Path(command[0]).stem
    try:
        host = remote.host_of(url)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    try:
        remote.headers_of(headers, os.environ)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--header") from None
    return ["--url", url], remote.command(url, headers), host


def _options(*, config: Path | None, approve: str | None, refuse: list[str] | None, changed: str) -> list[str]:
    """Returns the options for a client's configuration, with absolute paths: a client may start servers in any directory."""
    pairs = [
        ("--config", config and config.absolute()),
        ("--approve", approve),
    ]
    pairs += [("--refuse", one) for one in refuse or ()]
    pairs += [("--changed", changed)] if changed != "warn" else []
    options = [str(part) for pair in pairs if pair[1] is not None for part in pair]
    for name, value in KEYWORDS.items():
        is_file = extensions.find("keywords", name).metavar == "FILE"
        options += [f"--{name}", *([] if value is True else [os.path.abspath(value) if is_file else value])]
    return options


def _edit_client(init: Path | None, undo: Path | None, options: list[str]) -> None:
    left: dict[str, str] = {}
    if init is not None:
        (servers, left), done = put_before(require_file(init), options), "is guarded now"
    else:
        assert undo is not None
        servers, done = take_away(require_file(undo)), "is as it was"
    for server in servers:
        output.line(f"{server} {done}")
    for server, why in left.items():
        output.line(f"{server} is not guarded: {why}")
    if not servers and not left:
        output.line("nothing to change")
