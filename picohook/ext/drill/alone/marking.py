"""An MCP server with one tool, `mark`, which makes a drill's marker: an empty file."""

import json
import re
import sys

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "drill", "version": "1"}}

for line in sys.stdin:
    request = json.loads(line)
    method, params, result = request["method"], request.get("params", {}), {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], **INFO}
    elif method == "tools/list":
        result = {"tools": [{"name": "mark", "description": "Makes a marker.", "inputSchema": SCHEMA}]}
    elif method == "tools/call":
        if re.search(r"/picohook-drill-[\w-]+$", params["arguments"]["path"]):
            open(params["arguments"]["path"], "x").close()
        result = {"content": [{"type": "text", "text": "made"}]}
    if "id" in request:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()
