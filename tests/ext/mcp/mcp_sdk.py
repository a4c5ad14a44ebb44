"""The official SDK of MCP: a server, and a client that says what it got from servers, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import socket
import sys

import anyio
import uvicorn
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)

server = MCPServer("sdk", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def create_summary(path: str) -> str:
    """Summarize a file."""
    return f"read {path}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@server.tool()
async def count(context: Context) -> dict[str, list[int]]:
    """Report progress."""
    await context.report_progress(1, 2)
    return {"counted": [1, 2]}


@server.tool()
async def ask_model(question: str, context: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    answer = await context.session.create_message(messages=[message], max_tokens=9, system_prompt="Be brief.")
    return answer.content.text


@server.resource("text://one")
def one() -> str:
    """A text."""
    return "one"


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


TOKEN = {"authorization": "Bearer hidden-7"}


def guarded(app):
    """The app, for those who have the token."""

    async def asked(scope, receive, send):
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != b"Bearer hidden-7":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await app(scope, receive, send)

    return asked


def serve_http():
    """Serve over HTTP, and print the port. Ends with standard input."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = guarded(server.streamable_http_app())
    uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on")).run([listener])


def connection(to):
    """A connection to a server: a command, or a URL."""
    if isinstance(to, str):
        return streamable_http_client(to, http_client=create_mcp_http_client(headers=TOKEN))
    environ = {"TOKEN": os.environ.get("TOKEN", "")}
    return stdio_client(StdioServerParameters(command=to[0], args=to[1:], env=environ))


async def conversation(to, mode):
    progress, asked = [], []

    async def note(*told):
        progress.append(told)

    async def approve(_, question):
        asked.append(question.message.splitlines()[:2])
        return ElicitResult(action="accept", content={"approve": "2" in question.message.splitlines()[1]})

    async def complete(_, request):
        text = f"{request.system_prompt} {request.messages[0].content.text}"
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="m")

    client = Client(connection(to), mode=mode, elicitation_callback=approve, sampling_callback=complete)
    async with client:
        return {
            "version": client.protocol_version,
            "tools": plain(await client.list_tools()),
            "add": plain(await client.call_tool("add", {"a": 1, "b": 2**70})),
            "fail": plain(await client.call_tool("fail", {})),
            "wrong": plain(await client.call_tool("add", {"a": "x2"})),
            "count": plain(await client.call_tool("count", {}, progress_callback=note)),
            "progress": progress,
            "resource": plain(await client.read_resource("text://one")),
            "model": plain(await client.call_tool("ask_model", {"question": "why?"})) if mode == "legacy" else None,
            "asked": asked,
            "not approved": plain(await client.call_tool("add", {"a": 1, "b": 1})),
            "denied": plain(await client.call_tool("remove", {"path": "x"})),
        }


async def results(to, mode, calls):
    """What a server says about itself, and its results of these calls."""
    progress = []

    async def note(*told):
        progress.append(told)

    async def decline(_, question):
        return ElicitResult(action="decline")

    async def complete(_, request):
        return CreateMessageResult(role="assistant", content=request.messages[0].content, model="m")

    async def called(tool, arguments):
        try:
            return plain(await client.call_tool(tool, arguments, progress_callback=note))
        except MCPError as error:
            return {"error": str(error)}

    client = Client(connection(to), mode=mode, elicitation_callback=decline, sampling_callback=complete)
    async with client:
        return {
            "version": client.protocol_version,
            "server": plain(client.server_info),
            "capabilities": plain(client.server_capabilities),
            "tools": plain(await client.list_tools()),
            "calls": [await called(*one) for one in calls],
            "progress": progress,
        }


async def talk(commands):
    said = [[await conversation(command, mode) for mode in ("legacy", "auto")] for command in commands]
    print(json.dumps(said))


async def compare(commands, modes, calls):
    said = [[await results(command, mode, calls) for mode in modes] for command in commands]
    print(json.dumps(said))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        server.run()
    elif sys.argv[1] == "http":
        serve_http()
    elif sys.argv[1] == "calls":
        anyio.run(compare, *map(json.loads, sys.argv[2:]))
    else:
        anyio.run(talk, json.loads(sys.argv[2]))
