"""The official SDK of MCP: a server, and a client that says what it got from servers, in both eras of the protocol."""

from __future__ import annotations

import json
import sys

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ElicitResult

server = MCPServer("sdk")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@server.tool()
async def count(context: Context) -> dict[str, list[int]]:
    """Report progress."""
    await context.report_progress(1, 2)
    return {"counted": [1, 2]}


@server.resource("text://one")
def one() -> str:
    """A text."""
    return "one"


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def conversation(command, mode):
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    progress, asked = [], []

    async def note(*told):
        progress.append(told)

    async def approve(_, question):
        asked.append(question.message.splitlines()[:2])
        return ElicitResult(action="accept", content={"approve": "2" in question.message.splitlines()[1]})

    async with Client(stdio_client(parameters), mode=mode, elicitation_callback=approve) as client:
        return {
            "version": client.protocol_version,
            "tools": plain(await client.list_tools()),
            "add": plain(await client.call_tool("add", {"a": 1, "b": 2**70})),
            "fail": plain(await client.call_tool("fail", {})),
            "wrong": plain(await client.call_tool("add", {"a": "x2"})),
            "count": plain(await client.call_tool("count", {}, progress_callback=note)),
            "progress": progress,
            "resource": plain(await client.read_resource("text://one")),
            "asked": asked,
            "not approved": plain(await client.call_tool("add", {"a": 1, "b": 1})),
            "denied": plain(await client.call_tool("remove", {"path": "x"})),
        }


async def main(commands):
    said = [[await conversation(command, mode) for mode in ("legacy", "auto")] for command in commands]
    print(json.dumps(said))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        server.run()
    else:
        anyio.run(main, json.loads(sys.argv[2]))
