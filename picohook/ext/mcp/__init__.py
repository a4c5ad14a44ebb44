"""`picohook mcp`: hooks between any MCP client and any MCP server."""
