"""A tool call through `picohook mcp`, against the same call without it, and through a program that only forwards bytes."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from .clients import Pipe, line
from .given import Given, on
from .measure import Row, Times, alternate, blocking, micros, on_one_core, p50
from .side import MCP_SERVER

TIMEOUTS = "interceptor_timeout = 60\nhello_timeout = 60\nchain_budget = 300"
ARGUMENTS = {"tool": "bash", "arguments": {"command": "ls -la"}}


def through(directory: Path, echo: str) -> list[str]:
    """The beginning of a server's command, for a call that one hook is asked about before and after."""
    config = directory / "picohook.toml"
    stages = "stages = ['before_tool', 'after_tool']"
    config.write_text(f"[defaults]\n{TIMEOUTS}\n[hooks.h]\ncommand = {json.dumps([echo])}\n{stages}\n")
    return [sys.executable, "-m", "picohook", "mcp", "--config", str(config), "--"]


async def _sdk(given: Given) -> Times:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = [sys.executable, "-c", MCP_SERVER]
    with tempfile.TemporaryDirectory() as directory:
        between = through(Path(directory), given.echo)
        commands = {"direct": server, "forwarder": [given.forward, *server], "picohook": [*between, *server]}
        async with AsyncExitStack() as stack:
            calls = {}
            for name, command in commands.items():
                parameters = StdioServerParameters(command=command[0], args=command[1:])
                session = ClientSession(*await stack.enter_async_context(stdio_client(parameters)))
                await stack.enter_async_context(session)
                await session.initialize()
                calls[name] = p50(given.times(200), partial(session.call_tool, "before_tool", ARGUMENTS))
            return await alternate(given.rounds, **calls)


async def _bytes(given: Given) -> Times:
    request = line(1, "tools/call", {"name": "bash", "arguments": ARGUMENTS})
    server = [given.echo]
    with tempfile.TemporaryDirectory() as directory:
        between = through(Path(directory), given.echo)
        pipes = {
            "direct": Pipe(server),
            "forwarder": Pipe([given.forward, *server]),
            "picohook": Pipe([*between, *server]),
        }
        try:
            answer = json.loads(pipes["picohook"].ask(request))
            assert answer["result"] == {"action": "continue"}, answer
            calls = {name: blocking(partial(pipe.ask, request), given.times(1000)) for name, pipe in pipes.items()}
            return await alternate(given.rounds, **calls)
        finally:
            for pipe in pipes.values():
                pipe.close()


def mcp(given: Given) -> list[Row]:
    """A tool call through `picohook mcp`."""
    rows = []
    with on_one_core():
        at = on("asyncio", partial(_bytes, given))
        detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
        rows.append(
            Row(
                "a tool call through picohook mcp with a hook, against through a forwarder of bytes",
                at.ratio("picohook", "forwarder"),
                detail=detail,
            )
        )
        try:
            at = on("asyncio", partial(_sdk, given))
        except ImportError:
            return rows
        detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
        rows.append(
            Row(
                "a tool call of the MCP SDK's client and server through picohook mcp with a hook, against without",
                at.ratio("picohook", "direct"),
                must=1.9,
                why="each call is decoded, asked about twice and encoded in a third process, on the same core",
                detail=detail,
            )
        )
    return rows
