"""The tools of an MCP server, behind hooks: `picohook mcp` stands between any client and any server."""
