"""Others that ask another process, in the same run: shown, not held against a bound."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

from picohook import Host

from .given import CALL, FAR, HOOKS, PLAIN, Given, hook, on
from .measure import Row, Times, alternate, blocking, micros, on_one_core, p50

MCP_SERVER = """
import sys
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # before its version 2
    from mcp.server.fastmcp import FastMCP as MCPServer
server = MCPServer("echo")
@server.tool()
def before_tool(tool: str, arguments: dict) -> dict:
    return {"action": "continue"}
server.run()
"""


async def _each_a_process(given: Given) -> Times:
    command = f"{sys.executable} -S {HOOKS / 'oneshot.py'}"
    given_to_it = json.dumps(CALL.wire()).encode()

    def once() -> None:
        subprocess.run(["sh", "-c", command], input=given_to_it, capture_output=True, check=True)

    async with Host([hook("h", *PLAIN)], timeouts=FAR) as host:
        return await alternate(
            given.rounds,
            ours=p50(given.times(500), partial(host.before_tool, CALL)),
            process=blocking(once, given.times(20)),
        )


async def _mcp(given: Given) -> Times:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-c", MCP_SERVER])
    arguments: dict[str, Any] = {"tool": CALL.tool, "arguments": CALL.arguments}
    async with (
        Host([hook("h", *PLAIN)], timeouts=FAR) as host,
        stdio_client(server) as streams,
        ClientSession(*streams) as session,
    ):
        await session.initialize()
        return await alternate(
            given.rounds,
            ours=p50(given.times(500), partial(host.before_tool, CALL)),
            mcp=p50(given.times(200), partial(session.call_tool, "before_tool", arguments)),
        )


def peers(given: Given) -> list[Row]:
    """14."""
    rows = []
    with on_one_core():
        at = on("asyncio", partial(_each_a_process, given))
        detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
        rows.append(
            Row(
                "14", "sh -c with a Python script for each call, against us", at.ratio("process", "ours"), detail=detail
            )
        )
        try:
            at = on("asyncio", partial(_mcp, given))
        except ImportError:
            return rows
        detail = {f"{name}_us": micros(taken) for name, taken in at.items()}
        rows.append(
            Row(
                "14",
                "MCP Python SDK over stdio, against us",
                at.ratio("mcp", "ours"),
                detail=detail,
            )
        )
    return rows
