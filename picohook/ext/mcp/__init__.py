"""`picohook mcp`: hooks between any MCP client and any MCP server."""

from ...extension import Command, Extension, Lazy

extension = Extension(
    name="mcp",
    commands={
        "mcp": Command(Lazy("picohook.ext.mcp.command:app"), "Put hooks between an MCP client and an MCP server."),
    },
)
